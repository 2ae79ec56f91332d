//! The command line.

use clap::Parser;
use std::path::PathBuf;

/// Measure the product and print a table and JSON.
#[derive(Debug, Parser)]
#[command(name = "bench", args_override_self = true)]
pub(crate) struct Args {
    /// The `deerflow` binary to measure
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: PathBuf,
    /// The cargo profile it was built with, for the report [default: the name of its folder]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Measure these only; see docs/benchmark.md for the names
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(crate::measures::names()))]
    pub(crate) only: Vec<String>,
    /// Fewer repeats: for trying the benchmark, not for figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Where the JSON goes
    #[arg(long, value_name = "FILE", default_value = "target/bench.json")]
    pub(crate) json: PathBuf,
    /// Folder for throw-away homes; its disk is the one that is measured [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

impl Args {
    /// Whether this group of rows is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}
