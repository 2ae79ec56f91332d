//! The isolated computer: virtual paths, files, shell.
