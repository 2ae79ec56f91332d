//! The rows, as a table for people and as JSON for programs.

use crate::args::Args;
use crate::procfs;
use crate::stats::{Sample, number, with_unit};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;

/// Which figure of a sample a budget is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Statistic {
    P50,
    P95,
}

/// What a row may cost.
#[derive(Debug, Clone, Copy)]
struct Budget {
    at_most: f64,
    of: Statistic,
}

/// One line of the report.
#[derive(Debug)]
pub(crate) struct Row {
    what: String,
    measured: Sample,
    baseline: Option<(String, Sample)>,
    budget: Option<Budget>,
    note: Option<String>,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, measured: Sample) -> Self {
        Self { what: what.into(), measured, baseline: None, budget: None, note: None }
    }

    /// What the same thing costs without us, measured in the same run.
    pub(crate) fn beside(mut self, what: impl Into<String>, baseline: Sample) -> Self {
        self.baseline = Some((what.into(), baseline));
        self
    }

    /// The most it may be, in the unit of the sample.
    pub(crate) fn budget(mut self, of: Statistic, at_most: f64) -> Self {
        self.budget = Some(Budget { at_most, of });
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// How many times the baseline it is, where both have one unit.
    fn ratio(&self) -> Option<f64> {
        let (_, baseline) = self.baseline.as_ref()?;
        let comparable =
            baseline.unit() == self.measured.unit() && self.measured.unit() != "×" && baseline.median() > 0.0;
        comparable.then(|| self.measured.median() / baseline.median())
    }

    fn judged(&self) -> Option<(Budget, bool)> {
        let budget = self.budget?;
        let value = match budget.of {
            Statistic::P50 => self.measured.median(),
            Statistic::P95 => self.measured.p95(),
        };
        Some((budget, value <= budget.at_most))
    }

    fn cells(&self) -> [String; 6] {
        let note = self.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        let (budget, verdict) = match self.judged() {
            None => ("".to_owned(), ""),
            Some((budget, ok)) => {
                let statistic = match budget.of {
                    Statistic::P50 => "",
                    Statistic::P95 => " p95",
                };
                (
                    format!("≤ {}{statistic}", with_unit(budget.at_most, self.measured.unit())),
                    if ok { "ok" } else { "over" },
                )
            }
        };
        [
            format!("{}{note}", self.what),
            self.measured.text(),
            self.baseline.as_ref().map(|(what, sample)| format!("{what}: {}", sample.text())).unwrap_or_default(),
            self.ratio().map(|ratio| format!("{}×", number(ratio))).unwrap_or_default(),
            budget,
            verdict.to_owned(),
        ]
    }

    fn json(&self, group: &str) -> Value {
        let mut row = json!({"group": group, "what": self.what, "measured": self.measured.json()});
        if let Some((what, sample)) = &self.baseline {
            row["baseline"] = sample.json();
            row["baseline"]["what"] = json!(what);
            row["ratio"] = json!(self.ratio());
        }
        if let Some((budget, ok)) = self.judged() {
            let of = match budget.of {
                Statistic::P50 => "p50",
                Statistic::P95 => "p95",
            };
            row["budget"] = json!({"at_most": budget.at_most, "of": of});
            row["ok"] = json!(ok);
        }
        if let Some(note) = &self.note {
            row["note"] = json!(note);
        }
        row
    }
}

/// Everything that was measured.
pub(crate) struct Report {
    facts: Value,
    groups: Vec<(&'static str, f64, Vec<Row>)>,
    failures: Vec<(&'static str, String)>,
}

impl Report {
    pub(crate) fn new(args: &Args, binary: &Path, dir: &Path) -> Result<Self> {
        let folder = || binary.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let profile = args.profile.clone().or_else(folder).unwrap_or_default();
        let bench_profile = if cfg!(debug_assertions) { "unoptimised" } else { "optimised" };
        let facts = json!({
            "profile": profile, "bench_build": bench_profile, "quick": args.quick,
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "kernel": procfs::first_line("/proc/sys/kernel/osrelease"),
            "file_system": procfs::file_system(dir)?,
            "load_before": procfs::load_average()?,
        });
        Ok(Self { facts, groups: Vec::new(), failures: Vec::new() })
    }

    /// Adds the rows of a group. `others` is how many cores other processes kept busy meanwhile.
    pub(crate) fn add(&mut self, group: &'static str, rows: Vec<Row>, others: f64) {
        self.groups.push((group, others, rows));
    }

    /// Notes that a group could not be measured.
    pub(crate) fn fail(&mut self, group: &'static str, error: &anyhow::Error) {
        self.failures.push((group, format!("{error:#}")));
    }

    /// Whether everything that was asked for was measured.
    pub(crate) fn complete(&self) -> bool {
        self.failures.is_empty()
    }

    /// Prints the table on standard output.
    pub(crate) fn print(&self) {
        let facts = &self.facts;
        say(&format!(
            "Build profile `{}` (the benchmark itself: {}), {} cores, kernel {}, homes on {}, load average {} before.",
            text(&facts["profile"]),
            text(&facts["bench_build"]),
            facts["cores"],
            text(&facts["kernel"]),
            text(&facts["file_system"]),
            facts["load_before"],
        ));
        if facts["file_system"] == "tmpfs" {
            say("The homes are in memory: fsync costs nothing there. Choose a disk with --dir.");
        }
        if facts["quick"] == true {
            say("Few repeats (--quick): not for figures.");
        }
        say("");
        let mut lines = vec![["what", "measured", "baseline beside it", "ratio", "budget", ""].map(str::to_owned)];
        lines.extend(self.groups.iter().flat_map(|(_, _, rows)| rows.iter().map(Row::cells)));
        for line in table(&lines) {
            say(&line);
        }
        let busy: Vec<String> = self.groups.iter().map(|(group, others, _)| format!("{group} {others:.2}")).collect();
        say("");
        say(&format!("Cores that other processes kept busy meanwhile: {}.", busy.join(", ")));
        for (group, error) in &self.failures {
            say(&format!("Not measured: {group}: {error}"));
        }
    }

    /// Writes the JSON file.
    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        let groups: Vec<Value> =
            self.groups.iter().map(|(name, others, _)| json!({"group": name, "foreign_cores": others})).collect();
        let rows: Vec<Value> =
            self.groups.iter().flat_map(|(group, _, rows)| rows.iter().map(|row| row.json(group))).collect();
        let failures: Vec<Value> =
            self.failures.iter().map(|(group, error)| json!({"group": group, "error": error})).collect();
        let mut report = self.facts.clone();
        report["load_after"] = json!(procfs::load_average()?);
        report["groups"] = json!(groups);
        report["rows"] = json!(rows);
        report["not_measured"] = json!(failures);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let text = format!("{}\n", serde_json::to_string_pretty(&report)?);
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        complain(&format!("wrote {}", path.display()));
        Ok(())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// An aligned Markdown table; the first line is its head.
fn table<const N: usize>(lines: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let row = |line: &[String; N]| {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width + 2)).collect();
    let mut table = vec![row(&lines[0]), format!("|{}|", rule.join("|"))];
    table.extend(lines[1..].iter().map(row));
    table
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn say(text: &str) {
    println!("{text}");
}

/// Progress and errors.
#[expect(clippy::print_stderr, reason = "progress and errors are for the terminal")]
pub(crate) fn complain(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_by_characters() {
        let lines = [["what", "×"], ["é", "12×"]].map(|line| line.map(str::to_owned));
        assert_eq!(table(&lines), ["| what | ×   |", "|------|-----|", "| é    | 12× |"]);
    }

    #[test]
    fn a_budget_is_judged_by_its_statistic() {
        let sample = || Sample::in_unit("ms", [1.0, 2.0, 9.0]).unwrap();
        let verdict = |of, at_most| Row::new("x", sample()).budget(of, at_most).judged().map(|(_, ok)| ok);
        assert_eq!(verdict(Statistic::P50, 2.0), Some(true));
        assert_eq!(verdict(Statistic::P95, 2.0), Some(false));
    }

    #[test]
    fn units_that_differ_have_no_ratio() {
        let row = |unit| Row::new("x", Sample::one("ms", 6.0)).beside("y", Sample::one(unit, 2.0)).ratio();
        assert_eq!((row("ms"), row("MiB")), (Some(3.0), None));
    }
}
