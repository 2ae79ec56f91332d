//! Conversion and staging, end to end on real files.
