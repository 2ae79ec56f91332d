//! Admission, workers, recovery, run events.
