//! The launcher: our binary, started again, that makes the sandboxes.
//!
//! It is single-threaded from start to end, holds nothing of the server's memory or environment, and as root becomes the
//! dedicated user before anything else. It stays in a user namespace of its own (with capabilities there, none outside) and
//! clones one pid 1 per command. See [`crate::protocol`] for the conversation.

mod confine;
mod init;
mod memory;
mod network;
mod root;
mod seccomp;
mod sys;
mod template;
mod words;
mod zygote;

use crate::egress::inside;
use crate::protocol::LAUNCHER_ARG;

/// True if this process was started as a launcher (or as the helper that another launcher needs for the network). Ask before anything else in `main`, before any thread or runtime.
#[must_use]
pub fn is_launcher_invocation() -> bool {
    std::env::args_os().nth(1).is_some_and(|arg| arg == LAUNCHER_ARG || arg == inside::LISTEN_ARG)
}

/// Runs the launcher; never returns. Only after [`is_launcher_invocation`] said yes.
pub fn launcher_main() -> ! {
    if std::env::args_os().nth(1).is_some_and(|arg| arg == inside::LISTEN_ARG) {
        inside::main();
    }
    zygote::main()
}
