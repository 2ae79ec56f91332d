//! The launcher: our binary, started again, that makes the sandboxes.
//!
//! It is single-threaded from start to end, holds nothing of the server's memory or environment, and as root becomes the
//! dedicated user before anything else. It stays in a user namespace of its own (with capabilities there, none outside) and
//! clones one pid 1 per sandbox. See [`crate::protocol`] for the conversation.

mod ahead;
mod confine;
mod init;
mod job;
mod memory;
mod network;
mod packets;
mod plain;
mod root;
mod seccomp;
mod supervise;
mod sys;
mod template;
mod words;
mod zygote;

use crate::egress::inside;
use crate::protocol::{LAUNCHER_ARG, PLAIN_ARG};

/// True if this process was started as a launcher, or as the helper that another launcher needs for the network. Ask before
/// anything else in `main`, before any thread or runtime.
#[must_use]
pub fn is_launcher_invocation() -> bool {
    std::env::args_os().nth(1).is_some_and(|arg| arg == LAUNCHER_ARG || arg == inside::LISTEN_ARG)
}

/// Runs the launcher; never returns. Only after [`is_launcher_invocation`] said yes.
pub fn launcher_main() -> ! {
    if std::env::args_os().nth(1).is_some_and(|arg| arg == inside::LISTEN_ARG) {
        inside::main();
    }
    let mut further = std::env::args().skip(2);
    match further.next() {
        Some(kind) if kind == PLAIN_ARG => plain::main(further.next().and_then(|uid| uid.parse().ok())),
        _ => zygote::main(),
    }
}

/// The version of landlock that this kernel has; 0 is none.
pub(crate) fn landlock_version() -> i64 {
    sys::landlock_version()
}
