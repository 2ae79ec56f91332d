//! How long `true` takes in the isolated computer: alone, and 16 at once.
//!
//! `cargo run --release -p deerflow-sandbox --example latency [command]`

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deerflow_sandbox::{ExecRequest, IsolatedProvider, Launcher, Sandbox, SandboxConfig, SandboxProvider};
use tokio_util::sync::CancellationToken;

fn main() {
    if deerflow_sandbox::is_launcher_invocation() {
        deerflow_sandbox::launcher_main();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(measure()),
        Err(error) => report(&format!("no runtime: {error}")),
    }
}

async fn measure() {
    let base = std::env::temp_dir().join(format!("deerflow-latency-{}", std::process::id()));
    let command = std::env::args().nth(1).unwrap_or_else(|| "true".to_owned());
    match IsolatedProvider::start(&base, SandboxConfig::default(), Launcher::current()).await {
        Ok(provider) => rounds(&Arc::new(provider), &command).await,
        Err(error) => report(&format!("no sandbox: {error}")),
    }
    let _ = std::fs::remove_dir_all(&base);
}

async fn rounds(provider: &Arc<IsolatedProvider>, command: &str) {
    for (label, width, count) in [("alone", 1, 200), ("16 at once", 16, 40), ("64 at once", 64, 10)] {
        let (mut bare, mut again, mut first) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            bare.extend(together(width, |_| plain()).await);
            again.extend(together(width, |number| sandboxed(provider, command, format!("t{number}"))).await);
        }
        for round in 0..count.min(20) {
            // Nobody starts new threads without a pause.
            tokio::time::sleep(Duration::from_millis(150)).await;
            let thread = |number| sandboxed(provider, command, format!("{width}-{round}-{number}"));
            first.extend(together(width, thread).await);
        }
        summary(&format!("{label}, fork and exec of `true`"), bare);
        summary(&format!("{label}, sandboxed"), again);
        summary(&format!("{label}, sandboxed, first of its thread"), first);
    }
}

async fn together<F>(width: usize, task: impl Fn(usize) -> F) -> Vec<Duration>
where
    F: Future<Output = Option<Duration>> + Send + 'static,
{
    let mut tasks = tokio::task::JoinSet::new();
    (0..width).for_each(|number| drop(tasks.spawn(task(number))));
    tasks.join_all().await.into_iter().map(|time| time.unwrap_or(Duration::MAX)).collect()
}

fn sandboxed(
    provider: &Arc<IsolatedProvider>,
    command: &str,
    thread: String,
) -> impl Future<Output = Option<Duration>> + Send + 'static {
    let (provider, command) = (Arc::clone(provider), command.to_owned());
    async move {
        let sandbox: Arc<dyn Sandbox> = provider.acquire("bench", &thread).await.ok()?;
        let output = sandbox.execute(ExecRequest::new(command), CancellationToken::new()).await.ok()?;
        output.success().then_some(output.duration)
    }
}

async fn plain() -> Option<Duration> {
    let start = Instant::now();
    let status = tokio::process::Command::new("true").stdin(Stdio::null()).stdout(Stdio::null()).status().await.ok()?;
    status.success().then(|| start.elapsed())
}

fn summary(label: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
    report(&format!("{label}: p50 {:.2} ms, p95 {:.2} ms, max {:.2} ms", at(50), at(95), at(100)));
}

#[expect(clippy::print_stdout, reason = "the result of an example")]
fn report(line: &str) {
    println!("{line}");
}
