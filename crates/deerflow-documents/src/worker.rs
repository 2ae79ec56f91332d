//! Where conversions run: in this process on a blocking thread, or in a limited child process.
//!
//! A parser that loops or eats memory cannot be stopped from inside its own process. A [`Worker`] re-executes a program
//! with the hidden argument `__convert`; the child limits its own memory, processor time and files, reads the document
//! from standard input and answers with one JSON object on standard output.

use std::cell::Cell;
use std::io::{Read, Write};
use std::panic::UnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Once;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::convert::{Converted, convert_bytes};
use crate::error::ConvertError;
use crate::limits::Limits;

/// The hidden first argument of a worker process.
const WORKER_ARGUMENT: &str = "__convert";
/// What a child may take to start and to hand over its answer, on top of the document's own time.
const GRACE: Duration = Duration::from_secs(5);

/// A program that calls [`worker_main`] when [`is_worker_invocation`] says so: usually this very binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// The program to execute.
    pub program: PathBuf,
}

/// Converts files under limits, in a child process when it has a [`Worker`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Converter {
    /// What one document may cost.
    pub limits: Limits,
    /// The child's program; `None` converts in this process.
    pub worker: Option<Worker>,
}

impl Converter {
    /// Converts one file.
    ///
    /// # Errors
    /// See [`ConvertError`]. Nothing is written anywhere.
    ///
    /// # Cancel safety
    /// Dropping the future kills the child process. Without a worker the blocking thread runs on until its own time
    /// limit, and its result is dropped.
    pub async fn convert_file(&self, path: &Path) -> Result<Converted, ConvertError> {
        let bytes = read_file(path, &self.limits).await?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.convert(&name, bytes).await
    }

    /// Converts bytes that are already in memory.
    ///
    /// # Errors
    /// See [`ConvertError`].
    pub async fn convert(&self, name: &str, bytes: Vec<u8>) -> Result<Converted, ConvertError> {
        match &self.worker {
            Some(worker) => in_child(worker, name, &bytes, &self.limits).await,
            None => in_process(name.to_owned(), bytes, self.limits.clone()).await,
        }
    }
}

/// Converts one file in this process: on a blocking thread, with panics caught and a time limit.
///
/// # Errors
/// See [`ConvertError`].
pub async fn convert_file(path: &Path, limits: &Limits) -> Result<Converted, ConvertError> {
    Converter { limits: limits.clone(), worker: None }.convert_file(path).await
}

/// Reads a regular file, never more than the limit: a file may grow while it is read.
async fn read_file(path: &Path, limits: &Limits) -> Result<Vec<u8>, ConvertError> {
    // Opening a pipe would wait for a writer, so the kind is asked first.
    let metadata = tokio::fs::metadata(path).await?;
    if !metadata.is_file() {
        return Err(ConvertError::NotAFile { path: path.display().to_string() });
    }
    let limit = limits.max_input_bytes;
    if metadata.len() > limit {
        return Err(ConvertError::TooLarge { size: metadata.len(), limit });
    }
    let mut bytes = Vec::new();
    tokio::fs::File::open(path).await?.take(limit.saturating_add(1)).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 > limit {
        return Err(ConvertError::TooLarge { size: bytes.len() as u64, limit });
    }
    Ok(bytes)
}

async fn in_process(name: String, bytes: Vec<u8>, limits: Limits) -> Result<Converted, ConvertError> {
    let timeout = limits.timeout;
    let task = tokio::task::spawn_blocking(move || convert_bytes(&name, &bytes, &limits));
    match tokio::time::timeout(timeout.saturating_add(GRACE), task).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(stopped("its reader failed")),
        Err(_) => Err(ConvertError::Timeout { seconds: timeout.as_secs() }),
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Converted(Converted),
    Failed(ConvertError),
}

async fn in_child(worker: &Worker, name: &str, bytes: &[u8], limits: &Limits) -> Result<Converted, ConvertError> {
    let settings = serde_json::to_string(limits).map_err(|error| stopped(&error.to_string()))?;
    let mut child = tokio::process::Command::new(&worker.program)
        .args([WORKER_ARGUMENT, &settings, name])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(stopped("its reader could not be started"));
    };
    // JSON escapes a character to six bytes at worst, or to four of UTF-8.
    let most = (limits.max_output_chars as u64).saturating_mul(6).saturating_add(1 << 20);
    let mut answer = Vec::new();
    let exchange = async {
        let send = async {
            // A child that refuses the document early closes the pipe; its answer says why.
            let _ = stdin.write_all(bytes).await;
            drop(stdin);
        };
        let mut limited = stdout.take(most);
        let receive = limited.read_to_end(&mut answer);
        let ((), received) = tokio::join!(send, receive);
        received?;
        child.wait().await
    };
    let status = match tokio::time::timeout(limits.timeout.saturating_add(GRACE), exchange).await {
        Ok(status) => status?,
        Err(_) => {
            let _ = child.kill().await;
            return Err(ConvertError::Timeout { seconds: limits.timeout.as_secs() });
        }
    };
    match serde_json::from_slice(&answer) {
        Ok(Answer::Converted(converted)) => Ok(converted),
        Ok(Answer::Failed(error)) => Err(error),
        Err(_) => {
            use std::os::unix::process::ExitStatusExt;
            tracing::warn!(?status, "a document worker ended without an answer");
            if status.signal() == Some(rustix::process::Signal::XCPU.as_raw()) {
                return Err(ConvertError::Timeout { seconds: limits.timeout.as_secs() });
            }
            Err(stopped("its reader crashed or needed too much memory"))
        }
    }
}

fn stopped(reason: &str) -> ConvertError {
    ConvertError::Damaged { reason: reason.to_owned() }
}

/// Whether this process was started to convert one document: the program then calls [`worker_main`] before anything
/// else.
#[must_use]
pub fn is_worker_invocation() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == WORKER_ARGUMENT)
}

/// The whole life of a worker process. Does not return; exit code 0 with an answer on standard output, else 1.
pub fn worker_main() -> ! {
    let mut arguments = std::env::args_os().skip(2).map(|argument| argument.to_string_lossy().into_owned());
    let limits = arguments.next().and_then(|text| serde_json::from_str::<Limits>(&text).ok());
    let (Some(limits), Some(name)) = (limits, arguments.next()) else { std::process::exit(1) };
    if confine(&limits).is_err() {
        std::process::exit(1);
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(limits.max_input_bytes.saturating_add(1)).read_to_end(&mut bytes);
    let answer = match read.map_err(ConvertError::from).and_then(|_| convert_bytes(&name, &bytes, &limits)) {
        Ok(converted) => Answer::Converted(converted),
        Err(error) => Answer::Failed(error),
    };
    let written = serde_json::to_vec(&answer).is_ok_and(|json| std::io::stdout().lock().write_all(&json).is_ok());
    std::process::exit(if written { 0 } else { 1 });
}

/// Limits of the whole process, kept until it ends: memory, processor time, no files, no core dumps, no children.
fn confine(limits: &Limits) -> Result<(), rustix::io::Errno> {
    let cap = |resource, value: u64| setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) });
    cap(Resource::As, limits.max_memory_bytes)?;
    cap(Resource::Cpu, limits.timeout.saturating_add(GRACE).as_secs())?;
    cap(Resource::Core, 0)?;
    cap(Resource::Fsize, 0)?;
    cap(Resource::Nofile, 8)
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}
static HOOK: Once = Once::new();

/// Runs code that may panic on bad input; the panic's message is the error and is not printed.
pub(crate) fn quiet_catch<T>(run: impl FnOnce() -> T + UnwindSafe) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.with(Cell::get) {
                before(info);
            }
        }));
    });
    let outer = QUIET.with(|quiet| quiet.replace(true));
    let result = std::panic::catch_unwind(run);
    QUIET.with(|quiet| quiet.set(outer));
    result.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        text.chars().take(120).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        assert_eq!(quiet_catch(|| -> u8 { panic!("bad font {}", 7) }), Err("bad font 7".to_owned()));
        assert_eq!(quiet_catch(|| 3), Ok(3));
    }
}
