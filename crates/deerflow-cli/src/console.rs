//! The lines that a person types.
//!
//! **Invariant:** one reader of standard input for the whole process, so that what is typed while a run works and what is
//! typed at a question are one sequence, and no line is lost between them.

use nix::sys::signal::{SigSet, Signal};
use std::io::BufRead as _;
use std::time::Duration;
use tokio::sync::mpsc;

/// Lines that may wait for somebody to take them; the terminal keeps the rest.
const LINES: usize = 64;
/// How often a process in the background looks whether it may read again.
const BACKGROUND: Duration = Duration::from_millis(300);

/// What was typed, line by line.
pub(crate) struct Console {
    lines: mpsc::Receiver<Option<String>>,
    go_on: std::sync::mpsc::Sender<()>,
    ended: bool,
}

impl Console {
    /// Begins to read. The reading thread ends with the process.
    pub(crate) fn open() -> std::io::Result<Self> {
        let (sender, lines) = mpsc::channel(LINES);
        let (go_on, again) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("console".to_owned()).spawn(move || read(&sender, &again))?;
        Ok(Self { lines, go_on, ended: false })
    }

    /// The next line, without its end; `None` when the person says that there are no more (Ctrl-D). After that nothing is
    /// read until [`Self::reopen`], and this waits for ever.
    ///
    /// Cancel safe: a line that nobody took is the next one.
    pub(crate) async fn line(&mut self) -> Option<String> {
        if self.ended {
            return std::future::pending().await;
        }
        let line = self.lines.recv().await.flatten();
        self.ended = line.is_none();
        line
    }

    /// A line that was typed already.
    pub(crate) fn typed(&mut self) -> Option<String> {
        let line = self.lines.try_recv().ok()?;
        self.ended |= line.is_none();
        line
    }

    /// Reads on after a Ctrl-D: a terminal has no end.
    pub(crate) fn reopen(&mut self) {
        if std::mem::take(&mut self.ended) {
            // Fails when standard input broke; the next line is the end again then.
            let _ = self.go_on.send(());
        }
    }
}

fn read(lines: &mpsc::Sender<Option<String>>, again: &std::sync::mpsc::Receiver<()>) {
    // A read from the background fails with EIO instead of stopping the process, which has work to do.
    let mut stop = SigSet::empty();
    stop.add(Signal::SIGTTIN);
    let _ = stop.thread_block();
    let mut bytes = Vec::new();
    loop {
        let (line, broken) = match std::io::stdin().lock().read_until(b'\n', &mut bytes) {
            Ok(0) => (None, false),
            Ok(_) => {
                let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
                bytes.clear();
                (Some(line), false)
            }
            Err(error) if error.raw_os_error() == Some(nix::libc::EIO) => {
                std::thread::sleep(BACKGROUND);
                continue;
            }
            Err(_) => (None, true),
        };
        let ended = line.is_none();
        if lines.blocking_send(line).is_err() || broken || (ended && again.recv().is_err()) {
            return;
        }
    }
}
