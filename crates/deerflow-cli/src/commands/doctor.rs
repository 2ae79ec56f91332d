//! `deerflow doctor`: everything a newcomer trips on, with the command that mends it.

use super::{say, say_json};
use crate::app;
use crate::failure::{Failure, RUN};
use deerflow_core::UserId;
use deerflow_core::ports::ThreadRepo;
use deerflow_runtime::WorkerLock;
use deerflow_sandbox::{ExecRequest, MemoryBy, MemoryLimit};
use serde::Serialize;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

#[derive(Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    /// Works without it, with less.
    optional: bool,
    detail: String,
}

pub(crate) async fn doctor(file: Option<PathBuf>, json: bool) -> Result<(), Failure> {
    let mut checks = Vec::new();
    let mut add = |name, ok, optional, detail: String| checks.push(Check { name, ok, optional, detail });
    let config = match app::load_config(file) {
        Ok(config) => {
            let source = config.source().map_or("built-in defaults".to_owned(), |p| p.display().to_string());
            add("configuration", true, false, source);
            config
        }
        Err(failure) => {
            add("configuration", false, false, failure.message);
            return finish(&checks, json);
        }
    };
    let home = config.home().display().to_string();
    match WorkerLock::acquire(config.home()) {
        Ok(_lock) => add("home", true, false, home),
        Err(error) => {
            add("home", false, false, error.to_string());
            return finish(&checks, json);
        }
    }
    match app::open_store(&config).await {
        Ok(store) => {
            let threads = store.threads(&UserId::local(), 1, 0).await;
            add(
                "database",
                threads.is_ok(),
                false,
                threads.map_or_else(|e| e.to_string(), |_| "opens and answers".to_owned()),
            );
            store.close().await;
        }
        Err(failure) => add("database", false, false, failure.message),
    }
    match deerflow::assembly::sandbox(&config).await.map_err(Failure::usage) {
        Ok(sandbox) => {
            let capability = sandbox.capability();
            let mut detail = format!("{}, tier {}", sandbox.name(), capability.tier.as_str());
            for reason in &capability.reasons {
                detail.push_str("\n    ");
                detail.push_str(reason);
            }
            add("sandbox", capability.bash, true, detail);
            if capability.bash {
                add("network", true, true, format!("of commands: {}", sandbox.network()));
                let MemoryLimit { by, reason } = &capability.memory;
                let by_cgroup = *by == MemoryBy::Cgroup;
                let detail = match by {
                    MemoryBy::Cgroup => "cgroup: the kernel counts all memory of a command".to_owned(),
                    MemoryBy::Rlimits => format!("rlimits, for each process by itself; no cgroup: {reason}"),
                    MemoryBy::None => format!("no limit: {reason}"),
                };
                add("memory limit", by_cgroup, true, detail);
                let result = match sandbox.acquire("default", "doctor").await {
                    Ok(sandbox) => sandbox.execute(ExecRequest::new("echo ready"), CancellationToken::new()).await,
                    Err(error) => Err(error),
                };
                match result {
                    Ok(output) => {
                        let ok = output.success() && output.stdout.trim() == "ready";
                        add(
                            "bash",
                            ok,
                            true,
                            if ok {
                                format!("runs a command in {:.0} ms", output.duration.as_secs_f64() * 1000.0)
                            } else {
                                output.stderr
                            },
                        );
                    }
                    Err(error) => add("bash", false, true, error.to_string()),
                }
            }
        }
        Err(failure) => add("sandbox", false, false, failure.message),
    }
    let entries = deerflow::assembly::models(&config).entries();
    let default = entries.iter().find(|e| e.default);
    let detail = match default {
        Some(entry) if entry.source == "built in" => {
            "only the built-in offline model; hint: set OPENAI_API_KEY or ANTHROPIC_API_KEY, or write `models:` in config.yaml".to_owned()
        }
        Some(entry) => match &entry.unusable {
            None => format!("{} ({}, from {})", entry.name, entry.model, entry.source),
            Some(reason) => format!("{} cannot be used: {reason}", entry.name),
        },
        None => "none".to_owned(),
    };
    add("model", default.is_some_and(|e| e.unusable.is_none()), false, detail);
    finish(&checks, json)
}

fn finish(checks: &[Check], json: bool) -> Result<(), Failure> {
    if json {
        say_json(&checks)?;
    } else {
        for check in checks {
            let mark = match (check.ok, check.optional) {
                (true, _) => "ok  ",
                (false, true) => "less",
                (false, false) => "FAIL",
            };
            say(&format!("{mark}  {:13}  {}", check.name, check.detail.replace("; hint: ", "\n    hint: ")));
        }
    }
    if checks.iter().all(|c| c.ok || c.optional) { Ok(()) } else { Err(Failure::silent(RUN)) }
}
