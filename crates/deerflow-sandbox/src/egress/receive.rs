//! The server's end of the hand-over.

use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener as StdTcpListener;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::Interest;
use tokio::net::{TcpListener, UnixStream};

/// Waits for the listening socket of a sandbox; `None` if the other side ends without it. Other bytes that come meanwhile are
/// added to `seen`.
///
/// Cancel safe: each step stores what it takes, but a socket that was taken may be lost.
pub(crate) async fn receive(channel: &UnixStream, seen: &mut Vec<u8>) -> io::Result<Option<TcpListener>> {
    loop {
        let mut bytes = [0; 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        channel.readable().await?;
        let received = channel.try_io(Interest::READABLE, || {
            let mut iov = [IoSliceMut::new(&mut bytes)];
            recvmsg(channel, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC).map_err(io::Error::from)
        });
        match received {
            Ok(message) => {
                seen.extend_from_slice(&bytes[..message.bytes]);
                let rights = control.drain().find_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                    _ => None,
                });
                if let Some(fd) = rights {
                    let listener = StdTcpListener::from(fd);
                    listener.set_nonblocking(true)?;
                    return TcpListener::from_std(listener).map(Some);
                }
                if message.bytes == 0 {
                    return Ok(None);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}
