//! Jobs as they arrive at pid 1: the text, and the pipes of the command.

use std::io::{IoSliceMut, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

use super::sys;
use crate::protocol::{Failure, Job};

const MAX_JOB: u32 = 8 << 20;

/// A job and where its output goes.
pub(super) struct Received {
    pub job: Job,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// The entry of a cgroup, where it comes with the job.
    pub cgroup: Option<OwnedFd>,
}

/// Waits for a job; `None` when the server has closed its end.
pub(super) fn receive(control: &mut UnixStream) -> Result<Option<Received>, Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new("reading the job", error);
    let mut length = [0; 4];
    let (count, pipes) = first_bytes(control, &mut length).map_err(|errno| fail(&errno))?;
    if count == 0 {
        return Ok(None);
    }
    control.read_exact(&mut length[count..]).map_err(|error| fail(&error))?;
    let length = u32::from_be_bytes(length);
    if length > MAX_JOB {
        return Err(fail(&"too long"));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    control.read_exact(&mut bytes).map_err(|error| fail(&error))?;
    let job = serde_json::from_slice(&bytes).map_err(|error| fail(&error))?;
    let mut pipes = pipes.into_iter();
    let (Some(stdout), Some(stderr)) = (pipes.next(), pipes.next()) else { return Err(fail(&"descriptors missing")) };
    Ok(Some(Received { job, stdout, stderr, cgroup: pipes.next() }))
}

/// The descriptors come with the first byte.
fn first_bytes(control: &UnixStream, buffer: &mut [u8]) -> nix::Result<(usize, Vec<OwnedFd>)> {
    let mut space = nix::cmsg_space!([RawFd; 3]);
    let mut iov = [IoSliceMut::new(buffer)];
    let message = loop {
        match recvmsg::<()>(control.as_raw_fd(), &mut iov, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other?,
        }
    };
    let mut pipes = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            pipes.extend(numbers.into_iter().map(sys::own_fd));
        }
    }
    Ok((message.bytes, pipes))
}
