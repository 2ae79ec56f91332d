//! The weight of the binary.

use crate::Bench;
use crate::report::{Row, Statistic};
use crate::stats::Sample;
use anyhow::Result;

/// Megabytes, web UI included.
const BUDGET: f64 = 60.0;

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
    let megabytes = std::fs::metadata(&bench.binary)?.len() as f64 / 1e6;
    Ok(vec![Row::new("binary size", Sample::one("MB", megabytes)).budget(Statistic::P50, BUDGET)])
}
