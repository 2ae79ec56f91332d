//! The isolated computer: from the wish for a command to the death of its last process.

use crate::Bench;
use crate::product::new_home;
use crate::report::{Row, Statistic};
use crate::stats::Sample;
use anyhow::{Result, ensure};
use deerflow_sandbox::{ExecRequest, Launcher, Sandbox, SandboxConfig, create_provider};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Milliseconds, p95.
const BUDGET: f64 = 15.0;
const TOGETHER: usize = 16;

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    bench.runtime.block_on(all(bench))
}

async fn all(bench: &Bench) -> Result<Vec<Row>> {
    let home = new_home(&bench.dir)?;
    let up = startup(home.path(), bench.repeats(10, 3)).await?;
    let provider = create_provider(home.path(), SandboxConfig::default(), Launcher::current()).await?;
    let capability = provider.capability();
    ensure!(capability.bash, "there is no sandbox here: {}", capability.reasons.join("; "));
    let mut sandboxes = Vec::new();
    for number in 0..TOGETHER {
        sandboxes.push(provider.acquire("default", &format!("bench-{number}")).await?);
    }
    let (mut inside, mut bare) = (Vec::new(), Vec::new());
    sandboxed(&sandboxes[0]).await?;
    for _ in 0..bench.repeats(200, 30) {
        bare.push(plain().await?);
        inside.push(sandboxed(&sandboxes[0]).await?);
    }
    let (mut inside_together, mut bare_together) = (Vec::new(), Vec::new());
    for _ in 0..bench.repeats(20, 3) {
        let mut set = JoinSet::new();
        (0..TOGETHER).for_each(|_| drop(set.spawn(plain())));
        for time in set.join_all().await {
            bare_together.push(time?);
        }
        let mut set = JoinSet::new();
        for sandbox in &sandboxes {
            let sandbox = sandbox.clone();
            set.spawn(async move { sandboxed(&sandbox).await });
        }
        for time in set.join_all().await {
            inside_together.push(time?);
        }
    }
    Ok(vec![
        Row::new("sandboxed `true`, start to exit", Sample::of(inside)?)
            .beside("fork and exec `true`", Sample::of(bare)?)
            .budget(Statistic::P95, BUDGET),
        Row::new(format!("sandboxed `true`, {TOGETHER} at once"), Sample::of(inside_together)?)
            .beside(format!("{TOGETHER} × fork and exec"), Sample::of(bare_together)?)
            .budget(Statistic::P95, BUDGET),
        Row::new("sandbox provider up, launcher and trial command", up),
    ])
}

/// What each process pays once.
async fn startup(home: &Path, repeats: usize) -> Result<Sample> {
    let mut times = Vec::new();
    for _ in 0..repeats {
        let start = Instant::now();
        let provider = create_provider(home, SandboxConfig::default(), Launcher::current()).await?;
        times.push(start.elapsed());
        drop(provider);
    }
    Sample::of(times)
}

async fn sandboxed(sandbox: &Arc<dyn Sandbox>) -> Result<Duration> {
    let start = Instant::now();
    let output = sandbox.execute(ExecRequest::new("true"), CancellationToken::new()).await?;
    let elapsed = start.elapsed();
    ensure!(output.success(), "`true` failed in the sandbox: {output:?}");
    Ok(elapsed)
}

async fn plain() -> Result<Duration> {
    let start = Instant::now();
    let status = tokio::process::Command::new("true").stdin(Stdio::null()).stdout(Stdio::null()).status().await?;
    let elapsed = start.elapsed();
    ensure!(status.success(), "`true` failed: {status}");
    Ok(elapsed)
}
