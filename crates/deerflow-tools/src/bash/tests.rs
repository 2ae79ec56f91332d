use super::*;
use crate::testing::{Desk, map};
use deerflow_sandbox::{
    Capability, HostProvider, LimitHit, NetworkTrouble, NetworkUse, SandboxConfig, SandboxProvider,
};
use pretty_assertions::assert_eq;
use serde_json::json;

async fn run(desk: &Desk, command: &str) -> String {
    desk.ok("bash", json!({"description": "test", "command": command})).await
}

#[tokio::test]
async fn output_has_stdout_then_stderr_then_a_bad_exit_code() {
    let desk = Desk::new();
    assert_eq!(run(&desk, "echo out").await, "out");
    assert_eq!(run(&desk, "echo out; echo err >&2; exit 3").await, "out\nStd Error:\nerr\nExit Code: 3");
    assert_eq!(run(&desk, "echo err >&2").await, "err");
    assert_eq!(run(&desk, "true").await, "(no output)");
    assert_eq!(run(&desk, "exit 7").await, "Exit Code: 7");
}

#[tokio::test]
async fn commands_start_in_the_workspace_and_never_show_where_it_really_is() {
    let desk = Desk::new();
    assert_eq!(run(&desk, "pwd; echo x > /mnt/user-data/outputs/a.txt").await, "/mnt/user-data/workspace");
    assert_eq!(desk.bytes("outputs/a.txt"), b"x\n");
}

#[tokio::test]
async fn br_109_a_command_that_reads_stdin_ends_at_once() {
    assert_eq!(run(&Desk::new(), "cat; read x; echo done").await, "done");
}

#[tokio::test]
async fn br_110_a_huge_line_does_not_hide_the_error_after_it() {
    let desk = Desk::new();
    let output = desk
        .call("bash", json!({"command": "head -c 500000 /dev/zero | tr '\\0' a; echo; echo 'error: it broke'; exit 1"}))
        .await
        .unwrap();
    let text = output.content.text().into_owned();
    assert!(text.chars().count() <= 20_000, "{}", text.chars().count());
    assert!(text.starts_with("aaaa"), "head");
    assert!(text.contains("\n... [middle truncated: "), "marker");
    assert!(text.contains("error: it broke\nExit Code: 1\n[output truncated: "), "{}", &text[text.len() - 400..]);
    let saved = output.additional_kwargs[FULL_OUTPUT]["path"].as_str().unwrap();
    assert!(text.contains(saved) && saved.starts_with("/mnt/user-data/outputs/.tool-results/bash-"), "{saved}");
    let full = String::from_utf8(desk.bytes(saved.strip_prefix("/mnt/user-data/").unwrap())).unwrap();
    assert!(full.starts_with("aaaa") && full.ends_with("error: it broke\nExit Code: 1"));
    assert_eq!(full.chars().count() as u64, output.additional_kwargs[FULL_OUTPUT]["chars"].as_u64().unwrap());
}

#[tokio::test]
async fn a_cut_output_states_exit_code_0_too_and_keeps_both_streams() {
    let desk = Desk::with(|limits| limits.bash_output_max_chars = 1000);
    let text = run(&desk, "for i in $(seq 1 900); do echo out$i; echo err$i >&2; done").await;
    assert!(text.chars().count() <= 1000, "{}", text.chars().count());
    for piece in ["out1\n", "out900", "\nStd Error:\nerr1\n", "err900\nExit Code: 0\n[output truncated: "] {
        assert!(text.contains(piece), "{piece} in {text}");
    }
}

#[tokio::test]
async fn br_111_a_cut_inside_a_wide_character_does_not_panic() {
    let desk = Desk::with(|limits| limits.bash_output_max_chars = 301);
    for width in 0..5 {
        let text =
            run(&desk, &format!("printf 'a%.0s' $(seq 1 {width}); for i in $(seq 1 400); do printf 界; done")).await;
        assert!(text.chars().count() <= 301);
    }
}

#[tokio::test]
async fn a_command_over_its_time_is_told_with_its_output_until_then() {
    let desk = Desk::with(|limits| limits.bash_command_timeout = Duration::from_secs(1));
    let output = desk.call("bash", json!({"command": "echo begun; sleep 60"})).await.unwrap();
    assert_eq!(output.status, ToolStatus::Error);
    let text = output.content.text();
    assert!(text.starts_with("begun\nCommand timed out after 1 seconds and was killed"), "{text}");
    assert!(!text.contains("Exit Code"), "{text}");
}

#[tokio::test]
async fn cancelling_the_call_kills_the_command_and_is_no_result() {
    let desk = Desk::new();
    let tool = desk.tool("bash");
    let cancel = desk.ctx.cancel.clone();
    let marker = desk.host("workspace/started");
    let call = tool.call(&desk.ctx, map(json!({"command": "echo $$ > started; sleep 300"})));
    let stop = async {
        while std::fs::read_to_string(&marker).map_or(true, |text| text.is_empty()) {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(call, stop);
    assert!(matches!(result, Err(ToolError::Cancelled)), "{result:?}");
    let pid = std::fs::read_to_string(&marker).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "the shell lives: {stat}");
}

#[tokio::test]
async fn empty_commands_and_misspelt_arguments_are_refused() {
    let desk = Desk::new();
    assert!(desk.fail("bash", json!({"command": "  "})).await.contains("empty"));
    assert!(desk.fail("bash", json!({"cmd": "ls"})).await.contains("did you mean `command`?"));
}

#[test]
fn the_end_of_a_command_is_said_plainly() {
    let limit = Duration::from_secs(600);
    let with = |change: fn(&mut ExecOutput)| {
        let mut output = ExecOutput::default();
        change(&mut output);
        ending(&output, limit)
    };
    assert_eq!(with(|output| output.exit_code = Some(0)), "");
    assert_eq!(with(|output| output.signal = Some(9)), "Exit Code: 137 (killed by signal 9)");
    assert_eq!(
        with(|output| {
            output.limit_hit = Some(LimitHit::Memory);
            output.signal = Some(9);
        }),
        "Killed: memory limit reached\nExit Code: 137 (killed by signal 9)"
    );
    assert_eq!(
        with(|output| output.limit_hit = Some(LimitHit::Disk)),
        "Killed: disk space limit of the thread reached"
    );
}

#[test]
fn what_was_not_reached_on_the_network_is_said_with_the_end() {
    let trouble = |refused, count| NetworkTrouble {
        destination: "a.example:443".to_owned(),
        reason: "why".to_owned(),
        refused,
        count,
    };
    let network =
        NetworkUse { trouble: vec![trouble(true, 1), trouble(false, 3)], more_trouble: 7, ..NetworkUse::default() };
    let output = ExecOutput { exit_code: Some(0), network: Some(network), ..ExecOutput::default() };
    assert_eq!(
        ending(&output, Duration::from_secs(1)),
        "Network: a.example:443 was refused: why\nNetwork: a.example:443 was not reached: why (3 times)\n\
         Network: 7 further attempts were refused or failed\nExit Code: 0"
    );
    let quiet = ExecOutput { network: Some(NetworkUse::default()), ..output };
    assert_eq!(ending(&quiet, Duration::from_secs(1)), "");
}

/// A provider that says what its commands reach.
struct Says(HostProvider, NetworkAccess);

#[async_trait]
impl SandboxProvider for Says {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn capability(&self) -> &Capability {
        self.0.capability()
    }
    fn network(&self) -> NetworkAccess {
        self.1.clone()
    }
    async fn acquire(&self, user_id: &str, thread_id: &str) -> Result<Arc<dyn Sandbox>, SandboxError> {
        self.0.acquire(user_id, thread_id).await
    }
}

#[test]
fn the_description_says_what_commands_reach() {
    let description = |access: NetworkAccess| {
        let base = tempfile::tempdir().unwrap();
        let provider = HostProvider::new(base.path(), SandboxConfig::default()).unwrap();
        let desk = Desk::on(base, Arc::new(Says(provider, access)), |_| {});
        desk.tool("bash").spec().description.clone()
    };
    let list = |patterns: &[&str], loopback| NetworkAccess::AllowList {
        patterns: patterns.iter().map(|text| (*text).to_owned()).collect(),
        loopback,
    };
    let off = description(NetworkAccess::Off);
    assert!(off.contains("\n- There is no Internet access, only loopback.\n"), "{off}");
    assert_eq!(description(list(&[], false)), off);
    let some = description(list(&["pypi.org", "*.pythonhosted.org:443"], false));
    assert!(
        some.contains("reaches only: pypi.org, *.pythonhosted.org:443 (ports 80 and 443 where none is given), through the HTTP proxy"),
        "{some}"
    );
    assert!(!some.contains("no Internet") && !some.contains("127.0.0.1"), "{some}");
    let all = description(list(&["*", "127.0.0.1:8080"], true));
    assert!(all.contains("`*` is every public host") && all.contains("`curl --noproxy ''`"), "{all}");
    let many: Vec<String> = (0..50).map(|number| format!("h{number}.example")).collect();
    let many = description(NetworkAccess::AllowList { patterns: many, loopback: false });
    assert!(many.contains("h39.example and 10 more (") && !many.contains("h40.example"), "{many}");
    assert!(description(NetworkAccess::Unconfined).contains("The network is that of the host."));
}
