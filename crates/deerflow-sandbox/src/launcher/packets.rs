//! Packets with descriptors: between server and launcher, and between launcher and the processes it made ahead.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

use super::sys;
use crate::protocol::{Failure, MAX_FDS, MAX_PACKET};

/// A packet.
pub(super) struct Packet {
    pub bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

/// Sends one packet.
pub(super) fn send(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> nix::Result<()> {
    let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let rights: &[ControlMessage<'_>] = if numbers.is_empty() { &[] } else { &rights };
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], rights, MsgFlags::MSG_NOSIGNAL, None).map(drop)
}

/// One packet with its descriptors; `None` at the end.
pub(super) fn receive(socket: &OwnedFd) -> Result<Option<Packet>, Failure> {
    let fail = |errno| Failure::new("reading a packet", errno);
    let mut bytes = vec![0; MAX_PACKET];
    let mut space = nix::cmsg_space!([RawFd; MAX_FDS]);
    let mut iov = [IoSliceMut::new(&mut bytes)];
    let message = loop {
        match recvmsg::<()>(socket.as_raw_fd(), &mut iov, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other.map_err(fail)?,
        }
    };
    let mut fds = Vec::new();
    for control in message.cmsgs().map_err(fail)? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            fds.extend(numbers.into_iter().map(sys::own_fd));
        }
    }
    let length = message.bytes;
    if length == 0 {
        return Ok(None);
    }
    bytes.truncate(length);
    Ok(Some(Packet { bytes, fds }))
}
