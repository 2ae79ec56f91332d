//! The groups of rows, one file each.

mod first_token;
mod fsync;
mod history;
mod memory;
mod rounds;
mod sandbox;
mod size;
mod start;

use crate::Bench;
use crate::report::Row;
use anyhow::Result;

type Measure = fn(&Bench) -> Result<Vec<Row>>;

/// In the order in which they are measured and shown.
pub(crate) const ALL: [(&str, Measure); 8] = [
    ("start", start::measure),
    ("memory", memory::measure),
    ("fsync", fsync::measure),
    ("rounds", rounds::measure),
    ("first-token", first_token::measure),
    ("history", history::measure),
    ("sandbox", sandbox::measure),
    ("size", size::measure),
];

/// What `--only` takes.
pub(crate) fn names() -> [&'static str; 8] {
    ALL.map(|(name, _)| name)
}
