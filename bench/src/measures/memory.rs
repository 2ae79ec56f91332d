//! Memory of the process with its children, at rest within a run.

use crate::Bench;
use crate::model::{Hold, Model};
use crate::procfs::{TreeMemory, tree_memory};
use crate::product::Product;
use crate::report::{Row, Statistic};
use crate::stats::Sample;
use anyhow::{Context, Result};
use std::process::{Command, Stdio};
use std::time::Duration;

/// MiB, at rest and after rounds alike.
const BUDGET: f64 = 40.0;
/// Long enough for what follows the request to end.
const SETTLE: Duration = Duration::from_millis(300);

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let repeats = bench.repeats(5, 2);
    let (product, model) = bench.scripted()?;
    let (mut waiting, mut worked, mut bare) = (vec![], vec![], vec![]);
    for _ in 0..repeats {
        bare.push(sleeping()?);
        waiting.push(held(&product, &model, "[[script:plain tokens=20]]", 1)?);
        worked.push(held(&product, &model, "[[script:tools n=20 tokens=20]]", 21)?);
    }
    let bare = mebibytes(&bare)?;
    let processes =
        |memory: &[TreeMemory]| format!("{} processes", memory.iter().map(|m| m.processes).max().unwrap_or(0));
    let row = |what: &str, memory: &[TreeMemory]| {
        let row = Row::new(what, mebibytes(memory)?).beside("`sleep`", bare.clone()).note(processes(memory));
        Ok::<_, anyhow::Error>(row.budget(Statistic::P50, BUDGET))
    };
    Ok(vec![
        row("PSS, a run waits for its model's first byte", &waiting)?,
        row("PSS, the same after 20 tool rounds", &worked)?,
    ])
}

/// The memory while the model holds back its reply to this request.
fn held(product: &Product, model: &Model, prompt: &str, request: usize) -> Result<TreeMemory> {
    model.plan(Hold::HeadOf(request), false);
    let mut running = product.run(prompt)?;
    let mut arrival = model.arrival()?;
    for _ in 1..request {
        arrival = model.arrival()?;
    }
    std::thread::sleep(SETTLE);
    let memory = tree_memory(running.id())?;
    arrival.gate.open();
    running.finish()?;
    Ok(memory)
}

/// The memory of a process that does nothing.
fn sleeping() -> Result<TreeMemory> {
    let mut child = Command::new("sleep").arg("30").stdin(Stdio::null()).spawn().context("starting sleep")?;
    std::thread::sleep(Duration::from_millis(50));
    let memory = tree_memory(child.id());
    child.kill()?;
    child.wait()?;
    memory
}

fn mebibytes(memory: &[TreeMemory]) -> Result<Sample> {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 KiB")]
    Sample::in_unit("MiB", memory.iter().map(|memory| memory.pss_kib as f64 / 1024.0))
}
