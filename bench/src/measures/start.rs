//! Starting the process: nothing but the process, with a database, and all the way to the first request to a model.

use crate::Bench;
use crate::model::Hold;
use crate::product::{Product, time};
use crate::report::{Row, Statistic};
use crate::stats::Sample;
use anyhow::Result;
use std::process::Command;

/// Milliseconds.
const BUDGET: f64 = 100.0;

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let repeats = bench.repeats(20, 5);
    let (product, model) = bench.scripted()?;
    // The first command makes the home; it is not the one to be measured.
    product.time(&["threads", "list"])?;
    let (mut bare, mut version, mut list, mut fresh, mut request) = (vec![], vec![], vec![], vec![], vec![]);
    // In turn, so that a busy moment of the machine falls on all of them.
    for _ in 0..repeats {
        bare.push(time(Command::new("/bin/true"))?);
        version.push(product.time(&["--version"])?);
        list.push(product.time(&["threads", "list"])?);
        fresh.push(Product::new(&bench.binary, &bench.dir, None)?.time(&["threads", "list"])?);
        model.plan(Hold::Never, false);
        let mut running = product.run("[[script:plain tokens=5]]")?;
        request.push(model.arrival()?.at - running.started);
        running.finish()?;
    }
    let bare = Sample::of(bare)?;
    let row =
        |what: &str, times| Ok::<_, anyhow::Error>(Row::new(what, Sample::of(times)?).beside("`true`", bare.clone()));
    Ok(vec![
        row("process: `--version`", version)?,
        row("process: `threads list`, config and database open", list)?.budget(Statistic::P50, BUDGET),
        row("process: `threads list` in a new home", fresh)?.budget(Statistic::P50, BUDGET),
        row("process start to first model request, sandbox up", request)?.budget(Statistic::P50, BUDGET),
    ])
}
