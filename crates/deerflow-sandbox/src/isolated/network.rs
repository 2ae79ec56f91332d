//! The proxy of a command: from the socket that its sandbox hands over to the end of the command.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::client::launch_error;
use crate::SandboxError;
use crate::egress::{Egress, NetworkUse, Proxy, receive};
use crate::protocol::Failure;

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves the socket that comes over `channel`; `None` if none comes, because the other side ended or the caller wants no more.
/// What else comes is added to `seen`.
pub(super) async fn open(
    egress: &Arc<Egress>,
    thread: &str,
    channel: &UnixStream,
    seen: &mut Vec<u8>,
    cancel: &CancellationToken,
) -> Result<Option<Proxy>, SandboxError> {
    let listener = tokio::select! {
        () = cancel.cancelled() => return Ok(None),
        listener = tokio::time::timeout(START_TIMEOUT, receive(channel, seen)) => listener,
    };
    let listener = listener.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
    let listener = listener.map_err(|error| launch_error(&Failure::new("opening the network", error)))?;
    Ok(listener.map(|listener| Proxy::start(listener, Arc::clone(egress), thread)))
}

/// Ends a proxy, if there is one, and waits for that; what it did.
pub(super) async fn close(proxy: Option<Proxy>) -> Option<NetworkUse> {
    match proxy {
        Some(proxy) => Some(proxy.stop().await),
        None => None,
    }
}

/// Gives a command a socket as its input; our end, which ends the command when it is dropped.
pub(super) fn input_socket(command: &mut Command) -> Result<UnixStream, SandboxError> {
    let system = |error: std::io::Error| SandboxError::system("starting a command", &error);
    let (ours, theirs) = StdUnixStream::pair().map_err(system)?;
    ours.set_nonblocking(true).map_err(system)?;
    command.stdin(OwnedFd::from(theirs));
    UnixStream::from_std(ours).map_err(system)
}
