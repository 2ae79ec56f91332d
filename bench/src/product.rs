//! The binary under test: its home, its runs, its lines.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for a line, and for the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The configuration that every figure is about: the defaults, with a scripted model when there is one.
pub(crate) fn config(base_url: &str) -> String {
    format!(
        "models:\n  - name: scripted\n    use: openai\n    model: scripted-1\n    base_url: {base_url}\n    api_key: not-a-secret\n"
    )
}

/// A new home in this folder.
pub(crate) fn new_home(dir: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("df-")
        .tempdir_in(dir)
        .with_context(|| format!("making a home in {}", dir.display()))
}

/// The binary over a home of its own.
pub(crate) struct Product {
    binary: PathBuf,
    home: TempDir,
}

impl Product {
    pub(crate) fn new(binary: &Path, dir: &Path, base_url: Option<&str>) -> Result<Self> {
        let home = new_home(dir)?;
        if let Some(base_url) = base_url {
            std::fs::write(home.path().join("config.yaml"), config(base_url))?;
        }
        Ok(Self { binary: binary.to_owned(), home })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        // Nothing of our environment: a key in it would choose another model.
        command.args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home.path()).env("DEER_FLOW_HOME", self.home.path()).env("TZ", "UTC");
        command.current_dir(self.home.path()).stdin(Stdio::null());
        command
    }

    /// From start to exit of a command that has to succeed.
    pub(crate) fn time(&self, args: &[&str]) -> Result<Duration> {
        time(self.command(args)).with_context(|| format!("deerflow {}", args.join(" ")))
    }

    /// Starts `deerflow run PROMPT --json`.
    pub(crate) fn run(&self, prompt: &str) -> Result<Running> {
        let mut command = self.command(&["run", prompt, "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn()?;
        let out = child.stdout.take().context("no standard output")?;
        let (sender, lines) = sync_channel(64 << 10);
        std::thread::Builder::new().name("lines".to_owned()).spawn(move || {
            let mut out = BufReader::new(out);
            let mut text = String::new();
            while out.read_line(&mut text).is_ok_and(|count| count > 0) {
                let line = Line { at: Instant::now(), text: std::mem::take(&mut text) };
                if sender.send(line).is_err() {
                    break;
                }
            }
        })?;
        Ok(Running { child, lines, started })
    }

    /// Runs a prompt to its end and gives the time from start to exit.
    pub(crate) fn time_run(&self, prompt: &str) -> Result<Duration> {
        let mut running = self.run(prompt)?;
        let end = running.finish()?;
        Ok(end - running.started)
    }
}

/// From start to exit of any command that has to succeed.
pub(crate) fn time(mut command: Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn()?;
    let status = child.wait()?;
    let elapsed = start.elapsed();
    if !status.success() {
        let mut complaint = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            stderr.read_to_string(&mut complaint)?;
        }
        bail!("{status}: {}", complaint.trim());
    }
    Ok(elapsed)
}

/// A line, and when it had been read.
struct Line {
    at: Instant,
    text: String,
}

/// A run under way. It is killed when it is dropped before its end.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<Line>,
    pub(crate) started: Instant,
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// When the next line of this type was read; those before it are dropped.
    pub(crate) fn wait_for(&mut self, kind: &str) -> Result<Instant> {
        // The type is the first key of a line, so that no time goes into parsing.
        let start = format!("{{\"type\":\"{kind}\"");
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.text.starts_with(&start) => return Ok(line.at),
                Ok(_) => {}
                Err(error) => bail!("no line of type {kind} came ({error}): {}", self.complaint()),
            }
        }
    }

    /// Waits for a good end and the exit, and says when that was.
    pub(crate) fn finish(&mut self) -> Result<Instant> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = String::new();
        // The lines end when the process closes its standard output.
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            last = line.text;
        }
        ensure!(Instant::now() < deadline, "the run did not end");
        let status = self.child.wait()?;
        let end = Instant::now();
        let last: Value = serde_json::from_str(&last).unwrap_or_default();
        ensure!(
            status.success() && last["status"] == "success",
            "the run ended with {status}: {last} {}",
            self.complaint()
        );
        Ok(end)
    }

    fn complaint(&mut self) -> String {
        let _ = self.child.kill();
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut text);
        }
        text.trim().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
