//! The `deerflow` binary.
fn main() {}
