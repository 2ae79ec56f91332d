//! What a tool round costs beyond the time of the model itself.

use crate::Bench;
use crate::bare::Bare;
use crate::model::{Hold, Model};
use crate::report::{Row, Statistic};
use crate::stats::Sample;
use anyhow::{Result, ensure};
use std::time::Duration;

const ROUNDS: usize = 20;
/// Milliseconds a round.
const BUDGET: f64 = 2.0;

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let repeats = bench.repeats(7, 2);
    let (product, model) = bench.scripted()?;
    let mut rows = Vec::new();
    let mut plain = Vec::new();
    let mut tools = Vec::new();
    let mut files = Rounds::default();
    let mut shell = Rounds::default();
    product.time_run("[[script:plain tokens=20]]")?;
    for repeat in 0..repeats {
        model.plan(Hold::Never, false);
        plain.push(product.time_run("[[script:plain tokens=20]]")?);
        model.plan(Hold::Never, true);
        tools.push(product.time_run(&format!("[[script:tools n={ROUNDS} tokens=20]]"))?);
        files.note(&model)?;
        if repeat < repeats.div_ceil(2) {
            model.plan(Hold::Never, true);
            product.time_run(&format!("[[script:shell n={ROUNDS} tokens=20]]"))?;
            shell.note(&model)?;
        }
    }
    model.plan(Hold::Never, false);
    let (files_over, files_bare) = files.over(&model)?;
    let (shell_over, shell_bare) = shell.over(&model)?;
    let difference = Sample::of(tools)?.median() - Sample::of(plain)?.median();
    #[expect(clippy::cast_precision_loss, reason = "twenty")]
    let marginal = difference / ROUNDS as f64 - files_bare.median();
    rows.push(
        Row::new("overhead per tool round, between requests", files_over)
            .beside("bare client, same requests", files_bare.clone())
            .budget(Statistic::P50, BUDGET),
    );
    rows.push(
        Row::new("overhead per tool round, run of 20 less plain run", Sample::one("ms", marginal))
            .beside("bare client, same requests", files_bare)
            .budget(Statistic::P50, BUDGET),
    );
    rows.push(Row::new("overhead per `bash` round", shell_over).beside("bare client, same requests", shell_bare));
    Ok(rows)
}

/// Runs of the same number of rounds.
#[derive(Default)]
struct Rounds {
    /// From one request to the next, by round, run after run.
    between: Vec<Vec<Duration>>,
    /// The requests of the last run.
    bodies: Vec<Vec<u8>>,
}

impl Rounds {
    /// Takes down what the model saw of a run.
    fn note(&mut self, model: &Model) -> Result<()> {
        let arrived = model.arrived();
        ensure!(arrived.len() == ROUNDS + 1, "{} requests instead of {}", arrived.len(), ROUNDS + 1);
        self.between.push(arrived.windows(2).map(|pair| pair[1] - pair[0]).collect());
        self.bodies = model.bodies();
        Ok(())
    }

    /// The time between requests less what a bare client needs for the earlier of them, and that time itself.
    fn over(&self, model: &Model) -> Result<(Sample, Sample)> {
        let mut client = Bare::connect(model.address())?;
        let (mut over, mut all) = (Vec::new(), Vec::new());
        for (round, body) in self.bodies.iter().take(ROUNDS).enumerate() {
            let mut times = Vec::new();
            for _ in 0..9 {
                times.push(client.exchange(body)?.whole());
            }
            let bare = Sample::of(times.iter().copied())?.median();
            over.extend(self.between.iter().map(|run| run[round].as_secs_f64() * 1e3 - bare));
            all.extend(times);
        }
        Ok((Sample::in_unit("ms", over)?, Sample::of(all)?))
    }
}
