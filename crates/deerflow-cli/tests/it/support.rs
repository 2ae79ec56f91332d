//! A home, a scripted model, and the binary between them.

use deerflow_testkit::{ScriptedModel, TempHome, temp_home};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longest that a test waits for the binary.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) home: TempHome,
    pub(crate) model: Option<ScriptedModel>,
}

impl World {
    /// No configuration and no key: the offline model.
    pub(crate) fn offline() -> Self {
        Self { home: temp_home(), model: None }
    }

    /// A configuration with one scripted model.
    pub(crate) async fn scripted() -> Self {
        Self::scripted_with("").await
    }

    /// The same with further YAML.
    pub(crate) async fn scripted_with(yaml: &str) -> Self {
        let model = ScriptedModel::start().await;
        let home = temp_home();
        let url = model.base_url();
        let config = format!(
            "models:\n  - name: scripted\n    use: openai\n    model: scripted-1\n    base_url: {url}\n    api_key: test-key-123456\n\
             llm_call:\n  retry_base_delay_ms: 10\n  retry_cap_delay_ms: 20\n{yaml}"
        );
        home.write("config.yaml", config.as_bytes());
        Self { home, model: Some(model) }
    }

    pub(crate) fn model(&self) -> &ScriptedModel {
        self.model.as_ref().expect("a scripted world")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deerflow"));
        command.args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home.path()).env("DEER_FLOW_HOME", self.home.path()).env("TZ", "UTC");
        command.current_dir(self.home.path()).stdin(Stdio::null());
        command
    }

    /// Runs to the end, on a blocking thread so that the scripted model goes on.
    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        Ran::from(output)
    }

    /// Runs `deerflow run … --json` and gives its last line.
    pub(crate) async fn run_json(&self, args: &[&str]) -> (Ran, Value) {
        let mut all = vec!["run"];
        all.extend(args);
        all.push("--json");
        let ran = self.run(&all).await;
        let last = ran.json_lines().into_iter().rev().find(|l| l["type"] == "run_finished").unwrap_or_default();
        (ran, last)
    }

    /// Starts the binary and gives its JSON lines as they come.
    pub(crate) fn spawn(&self, args: &[&str]) -> Running {
        let mut child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap_or(Value::String(line))).is_err() {
                    break;
                }
            }
        });
        Running { child, lines }
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.home.path().join(relative)
    }

    /// The state of a thread, as `deerflow threads show --json` tells it.
    pub(crate) async fn state(&self, thread: &str) -> Value {
        let ran = self.run(&["threads", "show", thread, "--json"]).await;
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        serde_json::from_str::<Value>(&ran.stdout).unwrap()["values"].clone()
    }
}

/// A process that has ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("UTF-8 on stdout"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8 on stderr"),
        }
    }
}

impl Ran {
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}\n{}", self.stderr)))
            .collect()
    }
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// A process under way.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) lines: mpsc::Receiver<Value>,
}

impl Running {
    /// Waits for a line of this type; the lines before it are dropped.
    pub(crate) fn wait_for(&self, kind: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(DEADLINE).unwrap_or_else(|e| panic!("no {kind} line: {e}"));
            if line["type"] == kind {
                return line;
            }
        }
    }
    /// `kill -9`, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }
    pub(crate) fn wait(self) -> Ran {
        // The reader thread has taken stdout; what it sent is what there is.
        let mut child = self.child;
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
        let code = child.wait().unwrap().code().unwrap_or(-1);
        let stdout: Vec<String> = self.lines.try_iter().map(|l| l.to_string()).collect();
        Ran { code, stdout: stdout.join("\n"), stderr }
    }
}

/// `role: text` of the visible messages of a state.
pub(crate) fn story(state: &Value) -> Vec<String> {
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        other => {
            other.as_array().into_iter().flatten().filter_map(|b| b["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    };
    let messages = state["messages"].as_array().cloned().unwrap_or_default();
    messages
        .iter()
        .filter(|m| m["additional_kwargs"]["hide_from_ui"] != true)
        .map(|m| format!("{}: {}", m["type"].as_str().unwrap_or_default(), text(&m["content"])))
        .collect()
}

/// The repository's root.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}
