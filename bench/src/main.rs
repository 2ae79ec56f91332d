//! The benchmark behind `make bench`: what the product costs, each figure beside a baseline of the same run.
//!
//! **Invariant:** all traffic stays on loopback, every wait has a deadline, and a figure that could not be measured is an
//! error, never a guess. Being over a budget is a finding, not a failure.

mod args;
mod bare;
mod embedded;
mod measures;
mod model;
mod procfs;
mod product;
mod report;
mod stats;

use anyhow::{Context, Result};
use args::Args;
use clap::Parser;
use product::Product;
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;

/// What every measurement is given.
pub(crate) struct Bench {
    /// The binary under test.
    pub(crate) binary: PathBuf,
    /// Where throw-away homes are made.
    pub(crate) dir: PathBuf,
    /// Fewer repeats.
    pub(crate) quick: bool,
    /// As many workers as the product gives itself.
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl Bench {
    /// `full` repeats, or `quick` ones.
    pub(crate) fn repeats(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// The binary over a new home, with a scripted model.
    pub(crate) fn scripted(&self) -> Result<(Product, model::Model)> {
        let model = model::Model::start()?;
        Ok((Product::new(&self.binary, &self.dir, Some(&model.base_url()))?, model))
    }
}

fn main() -> ExitCode {
    // The sandbox is measured in this process, so this binary is its launcher, too. Before any thread is started.
    if deerflow_sandbox::is_launcher_invocation() {
        deerflow_sandbox::launcher_main();
    }
    match bench(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report::complain(&format!("bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Measures and prints. `false` when something could not be measured.
fn bench(args: &Args) -> Result<bool> {
    let binary = std::path::absolute(&args.binary)?;
    anyhow::ensure!(binary.is_file(), "there is no binary {}", binary.display());
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let dir = dir.canonicalize().with_context(|| format!("the folder for homes, {}", dir.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::new(args, &binary, &dir)?;
    let bench = Bench { binary, dir, quick: args.quick, runtime };
    for (name, measure) in measures::ALL {
        if !args.wants(name) {
            continue;
        }
        report::complain(&format!("measuring {name}"));
        let others = procfs::OthersMeter::start()?;
        match measure(&bench) {
            Ok(rows) => report.add(name, rows, others.cores()?),
            Err(error) => {
                report::complain(&format!("bench: {name} could not be measured: {error:#}"));
                report.fail(name, &error);
            }
        }
    }
    report.print();
    report.write_json(&args.json)?;
    Ok(report.complete())
}
