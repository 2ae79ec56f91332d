//! `bash`: a command in the thread's computer.

use crate::workbench::{Wanted, Workbench, explain};
use crate::{args, schema};
use async_trait::async_trait;
use deerflow_core::text::middle_cut;
use deerflow_core::{JsonMap, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, ToolStatus};
use deerflow_sandbox::{ExecOutput, ExecRequest, Expect, NetworkAccess, Sandbox, SandboxError, Tier};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// Where outputs that are too long to show are kept.
const RESULTS: &str = "/mnt/user-data/outputs/.tool-results";
/// `additional_kwargs` key that names the file with the whole output.
pub const FULL_OUTPUT: &str = "deerflow_full_output";

const DESCRIPTION: &str = "\
Run a shell command in your isolated Linux computer and get its output: stdout, then `Std Error:` with stderr, then `Exit Code:` \
if it is not 0.
- It starts in /mnt/user-data/workspace. Working files go there, deliverables to /mnt/user-data/outputs, the user's files are in \
/mnt/user-data/uploads. HOME and /tmp keep their content between calls.
- Each call is a new shell: `cd`, variables and background processes do not outlive it. To test a server, start it in the \
background and use it within the same command.
- stdin is empty; a command that waits for input gets end of file.
";

/// The same without namespaces.
const DESCRIPTION_LANDLOCK: &str = "\
Run a shell command on a shared Linux machine, confined to your folders, and get its output: stdout, then `Std Error:` with \
stderr, then `Exit Code:` if it is not 0.
- It starts in /mnt/user-data/workspace. Working files go there, deliverables to /mnt/user-data/outputs, the user's files are in \
/mnt/user-data/uploads. HOME and /tmp keep their content between calls.
- These paths are replaced by the real ones where they stand in the command; in script files and to programs they do not exist: \
there use relative paths, $HOME and $TMPDIR.
- Each call is a new shell: `cd`, variables and background processes do not outlive it.
- stdin is empty; a command that waits for input gets end of file. There is no network at all: sockets are refused, those of \
loopback too. Other processes and files of the machine can be seen by name and cannot be opened or signalled.
";

const ADVICE: &str = "\
- Prefer read_file, write_file, str_replace, ls, glob and grep for work on files. Run commands one by one, or join them with \
`&&` when the next depends on the last.
- Long output is cut in the middle; the whole of it is kept in a file that the result names.";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// In a few words, why this command is run. Give it first.
    #[serde(default)]
    #[expect(dead_code, reason = "for people who watch; not used here")]
    description: String,
    /// The command, as for `bash -c`. Use absolute paths for files.
    command: String,
}

pub(crate) struct Bash {
    bench: Arc<Workbench>,
    spec: ToolSpec,
}

impl Bash {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        let seconds = bench.limits.bash_command_timeout.as_secs();
        // Without namespaces there is no network, whatever is configured: that description says so.
        let computer = match bench.tier() {
            Tier::Landlock => DESCRIPTION_LANDLOCK.to_owned(),
            Tier::Namespaces | Tier::Bwrap | Tier::Host | Tier::None => {
                format!("{DESCRIPTION}- {}\n", network(&bench.network()))
            }
        };
        let description = format!("{computer}{ADVICE}\n- A command may run for {seconds} seconds.");
        Self { bench, spec: schema::spec::<Args>("bash", &description) }
    }
}

#[async_trait]
impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let args: Args = args::parse(&self.spec, args)?;
        if args.command.trim().is_empty() {
            return Err(ToolError::respond("The command is empty; nothing was run"));
        }
        if args.command.contains('\0') {
            return Err(ToolError::respond("The command contains a NUL character; nothing was run"));
        }
        let sandbox = self.bench.sandbox(ctx).await?;
        let limit = self.bench.limits.bash_command_timeout;
        let request = ExecRequest { timeout: Some(limit), ..ExecRequest::new(args.command) };
        let output = match sandbox.execute(request, ctx.cancel.clone()).await {
            Ok(output) if output.cancelled => return Err(ToolError::Cancelled),
            Ok(output) => output,
            Err(SandboxError::ShellUnavailable { reasons }) => {
                return Err(ToolError::Respond(format!(
                    "Commands are not available on this machine ({}). Use the file tools instead",
                    reasons.join("; ")
                )));
            }
            Err(error) => return Err(ToolError::Respond(explain(&error, Wanted::Either))),
        };
        Ok(self.render(ctx, &*sandbox, &output, limit).await)
    }
}

impl Bash {
    async fn render(
        &self,
        ctx: &ToolContext,
        sandbox: &dyn Sandbox,
        output: &ExecOutput,
        limit: Duration,
    ) -> ToolOutput {
        let report = Report {
            stdout: sandbox.mask(&output.stdout),
            stderr: sandbox.mask(&output.stderr),
            ending: ending(output, limit),
        };
        let full = report.text();
        let max = self.bench.limits.bash_output_max_chars;
        let chars = full.chars().count();
        let mut result = if max == 0 || chars <= max {
            ToolOutput::text(full)
        } else {
            let code = output.exit_code.unwrap_or_default();
            self.cut(ctx, sandbox, &report, &full, chars, max, code).await
        };
        if output.timed_out || output.limit_hit.is_some() {
            result.status = ToolStatus::Error;
        }
        result
    }

    /// Start and end of the output, how it ended, and where all of it is.
    #[expect(clippy::too_many_arguments, reason = "pieces of one rendering")]
    async fn cut(
        &self,
        ctx: &ToolContext,
        sandbox: &dyn Sandbox,
        report: &Report,
        full: &str,
        chars: usize,
        max: usize,
        code: i32,
    ) -> ToolOutput {
        let digest = Sha256::digest(format!("{}\n{}\n{full}", ctx.run_id, ctx.call_id));
        let name: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let path = format!("{RESULTS}/bash-{name}.log");
        let saved = match sandbox.parse_path(&path) {
            Ok(parsed) => sandbox.write_text(&parsed, full, Expect::Any).await.map(drop),
            Err(error) => Err(error),
        };
        // The end of the command is stated even where it would go without saying: a cut output hides it.
        let mut ending = if report.ending.is_empty() { format!("Exit Code: {code}") } else { report.ending.clone() };
        match &saved {
            Ok(()) => ending.push_str(&format!(
                "\n[output truncated: {chars} chars in all, saved to {path}; see any part with read_file (start_line, end_line) or grep]"
            )),
            Err(error) => {
                tracing::warn!(%error, "full command output not saved");
                ending.push_str(&format!(
                    "\n[output truncated: {chars} chars in all, not saved ({error}); run it again with its output redirected to a file]"
                ));
            }
        }
        let mut shown = ToolOutput::text(report.fit(max, &ending));
        if saved.is_ok() {
            shown.additional_kwargs.insert(FULL_OUTPUT.to_owned(), json!({"path": path, "chars": chars}));
        }
        shown
    }
}

/// Most patterns of an allow-list that the description names.
const SHOWN_PATTERNS: usize = 40;

/// What commands can reach, for the description.
fn network(access: &NetworkAccess) -> String {
    match access {
        NetworkAccess::Off => "There is no Internet access, only loopback.".to_owned(),
        NetworkAccess::AllowList { patterns, .. } if patterns.is_empty() => network(&NetworkAccess::Off),
        NetworkAccess::AllowList { patterns, loopback } => {
            let mut shown = patterns.iter().take(SHOWN_PATTERNS).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = patterns.len().saturating_sub(SHOWN_PATTERNS);
            if more > 0 {
                shown.push_str(&format!(" and {more} more"));
            }
            let all = if patterns.iter().any(|pattern| pattern == "*") { "; `*` is every public host" } else { "" };
            let loopback = if *loopback {
                " Programs do not ask a proxy for 127.0.0.1 by themselves: set NO_PROXY and no_proxy to nothing for what is \
                 listed there, as with `curl --noproxy ''`."
            } else {
                ""
            };
            format!(
                "The network reaches only: {shown} (ports 80 and 443 where none is given{all}), through the HTTP proxy in the \
                 environment (HTTPS_PROXY and the like), which curl, pip, git and most programs use by themselves. Anything else, \
                 DNS and UDP included, fails; the result names what was refused. Only the user can change this.{loopback}"
            )
        }
        NetworkAccess::Unconfined => "The network is that of the host.".to_owned(),
    }
}

/// The parts of a result.
struct Report {
    stdout: String,
    stderr: String,
    /// How the command ended, empty for exit code 0.
    ending: String,
}

impl Report {
    fn text(&self) -> String {
        let text = join(&self.stdout, &self.stderr, &self.ending);
        if text.is_empty() { "(no output)".to_owned() } else { text }
    }

    /// The same in at most `max` characters, each stream with its start and its end, `ending` whole.
    fn fit(&self, max: usize, ending: &str) -> String {
        const FRAME: usize = "\nStd Error:\n\n".len();
        let room = max.saturating_sub(ending.chars().count() + FRAME);
        let (out, err) = (self.stdout.chars().count(), self.stderr.chars().count());
        // Each gets half; what one does not need goes to the other. A share of 0 would mean no limit.
        let err_share = err.min((room / 2).max(room.saturating_sub(out)));
        let out_share = room - err_share;
        let part = |text: &str, share: usize| if share == 0 { String::new() } else { middle_cut(text, share) };
        let text = join(&part(&self.stdout, out_share), &part(&self.stderr, err_share), ending);
        deerflow_core::text::tail(&text, max).to_owned()
    }
}

fn join(stdout: &str, stderr: &str, ending: &str) -> String {
    let mut text = stdout.trim_end_matches('\n').to_owned();
    let stderr = stderr.trim_end_matches('\n');
    if !stderr.is_empty() {
        if !text.is_empty() {
            text.push_str("\nStd Error:\n");
        }
        text.push_str(stderr);
    }
    if !ending.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(ending);
    }
    text
}

/// How the command ended, in words, and what it did not reach on the network; empty for exit code 0 and nothing of that kind.
fn ending(output: &ExecOutput, limit: Duration) -> String {
    let mut lines = Vec::new();
    if let Some(network) = &output.network {
        lines.extend(network.trouble.iter().map(|trouble| format!("Network: {trouble}")));
        if network.more_trouble > 0 {
            lines.push(format!("Network: {} further attempts were refused or failed", network.more_trouble));
        }
    }
    let told = !lines.is_empty();
    if output.timed_out {
        lines.push(format!(
            "Command timed out after {} seconds and was killed with everything it started; the output until then is above",
            limit.as_secs()
        ));
    }
    if let Some(hit) = output.limit_hit {
        // Some limits are found out only when the command has ended by itself.
        let what = if output.exit_code.is_some() { "Limit reached" } else { "Killed" };
        lines.push(format!("{what}: {hit}"));
    }
    if !output.timed_out {
        match (output.exit_code, output.signal) {
            // With something before it, 0 does not go without saying.
            (Some(code), _) if code != 0 || told => lines.push(format!("Exit Code: {code}")),
            (None, Some(signal)) => lines.push(format!("Exit Code: {} (killed by signal {signal})", 128 + signal)),
            _ => {}
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
