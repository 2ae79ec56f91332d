//! What lies between the model's first token and ours.

use crate::Bench;
use crate::bare::Bare;
use crate::embedded::Embedded;
use crate::model::{Hold, Model};
use crate::product::Product;
use crate::report::{Row, Statistic};
use crate::stats::Sample;
use anyhow::{Context, Result};
use deerflow_core::ThreadId;
use std::time::{Duration, Instant};

/// Milliseconds, p95.
const BUDGET: f64 = 3.0;
/// Long enough for a process at the gate to come to rest.
const SETTLE: Duration = Duration::from_millis(10);

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = added(bench)?;
    rows.extend(relayed(bench)?);
    Ok(rows)
}

/// From the start of a run in a warm process to its first token, beside a bare client with the same request.
fn added(bench: &Bench) -> Result<Vec<Row>> {
    let repeats = bench.repeats(100, 15);
    let model = Model::start()?;
    let (mut ours, mut bare, mut request) = (Vec::new(), Vec::new(), Vec::new());
    bench.runtime.block_on(async {
        let embedded = Embedded::open(&bench.dir, &model.base_url()).await?;
        let prompt = "[[script:plain tokens=20]]";
        for _ in 0..5 {
            embedded.run(&ThreadId::random(), prompt).await?;
        }
        let mut client = Bare::connect(model.address())?;
        for _ in 0..repeats {
            model.plan(Hold::Never, false);
            let moments = embedded.run(&ThreadId::random(), prompt).await?;
            ours.push(moments.first - moments.start);
            let arrived = model.arrived().first().copied().context("no request came")?;
            request.push(arrived - moments.start);
            let body = model.bodies().pop().context("no request was kept")?;
            bare.push(client.exchange(&body)?.until_first());
        }
        embedded.store.close().await;
        Ok::<_, anyhow::Error>(())
    })?;
    let bare = Sample::of(bare)?;
    let base = bare.median();
    let over = Sample::in_unit("ms", ours.iter().map(|time| time.as_secs_f64() * 1e3 - base))?;
    Ok(vec![
        Row::new("added time to first token, warm process, new thread", over)
            .beside("bare client to first token", bare)
            .budget(Statistic::P95, BUDGET),
        Row::new("of that, run start to request at the model", Sample::of(request)?),
    ])
}

/// From the moment the model lets go of its first token to the line on our standard output.
fn relayed(bench: &Bench) -> Result<Vec<Row>> {
    let (product, model) = bench.scripted()?;
    let (mut cold, mut warm, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.repeats(15, 3) {
        cold.extend(released(bench, &product, &model, "[[script:plain tokens=20]]", 1)?);
        let body = model.bodies().pop().context("no request was kept")?;
        bare.extend(released_bare(bench, &model, &body)?);
    }
    for _ in 0..bench.repeats(2, 1) {
        warm.extend(released(bench, &product, &model, "[[script:tools n=20 tokens=20]]", 21)?.into_iter().skip(1));
    }
    let bare = Sample::of(bare)?;
    let row = |what: &str, times| {
        Ok::<_, anyhow::Error>(Row::new(what, Sample::of(times)?).beside("bare client", bare.clone()))
    };
    Ok(vec![
        row("model's first token to our line, first turn of a process", cold)?,
        row("model's first token to our line, later turns", warm)?,
    ])
}

/// Runs a prompt of so many requests; each is held before its first token until everything is at rest.
fn released(bench: &Bench, product: &Product, model: &Model, prompt: &str, requests: usize) -> Result<Vec<Duration>> {
    model.plan(Hold::FirstToken, false);
    let mut running = product.run(prompt)?;
    let mut times = Vec::new();
    for _ in 0..requests {
        let arrival = model.arrival()?;
        bench.runtime.block_on(arrival.gate.reached());
        std::thread::sleep(SETTLE);
        // The lines of the turn before have all been read by now: this turn's start is the last of them.
        running.wait_for("model_started")?;
        let go = Instant::now();
        arrival.gate.open();
        times.push(running.wait_for("model_delta")?.saturating_duration_since(go));
    }
    running.finish()?;
    Ok(times)
}

fn released_bare(bench: &Bench, model: &Model, body: &[u8]) -> Result<Vec<Duration>> {
    let mut client = Bare::connect(model.address())?;
    let mut times = Vec::new();
    for _ in 0..3 {
        model.plan(Hold::FirstToken, false);
        std::thread::scope(|scope| {
            let exchange = scope.spawn(|| client.exchange(body));
            let arrival = model.arrival()?;
            bench.runtime.block_on(arrival.gate.reached());
            std::thread::sleep(SETTLE);
            let go = Instant::now();
            arrival.gate.open();
            let exchange = exchange.join().map_err(|_| anyhow::anyhow!("the bare client died"))??;
            times.push(exchange.first.saturating_duration_since(go));
            Ok::<_, anyhow::Error>(())
        })?;
    }
    Ok(times)
}
