//! In the sandbox, before the command: the socket that the server will accept on, and how programs find it.
//!
//! Plain system calls, no runtime: this runs in a process that is about to become something else.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// The argument that makes our binary the helper [`main`].
pub(crate) const LISTEN_ARG: &str = "__sandbox-listen";
/// The port of the proxy; what a command writes into a program's configuration then holds for the next one, too.
const PORT: u16 = 3128;

/// Listens in this network, hands the socket over, and tells the variables that lead to it. This process keeps nothing of the
/// socket.
pub(crate) fn open(channel: BorrowedFd<'_>) -> io::Result<Vec<(&'static str, String)>> {
    // Another port where that is taken: by the proxy of the last command in this network, in the moment that it ends.
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let port = listener.local_addr()?.port();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let rights = [listener.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&rights)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    // White space before the report of the job, as the channel has it.
    sendmsg(channel, &[io::IoSlice::new(b"\n")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(variables(port))
}

/// What programs go by. curl takes only the small letters for HTTP, other programs only the capitals.
fn variables(port: u16) -> Vec<(&'static str, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let own = "localhost,127.0.0.1,::1".to_owned();
    let proxies = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let mut all: Vec<(&str, String)> = proxies.into_iter().map(|name| (name, proxy.clone())).collect();
    all.extend(["NO_PROXY", "no_proxy"].map(|name| (name, own.clone())));
    // Node.js looks at the above only when asked to.
    all.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    all
}

/// Adds the variables to an environment, which wins where it has one already.
pub(crate) fn add(env: &mut Vec<(String, String)>, variables: Vec<(&'static str, String)>) {
    for (name, value) in variables {
        if !env.iter().any(|(known, _)| known == name) {
            env.push((name.to_owned(), value));
        }
    }
}

/// Our binary as a helper in a sandbox that another program has made: opens the socket over standard input, then becomes the
/// program that the further arguments name.
pub(crate) fn main() -> ! {
    let mut words = std::env::args_os().skip(2);
    let failure = match (open(io::stdin().as_fd()), words.next()) {
        (Ok(variables), Some(program)) => {
            let variables = variables.into_iter().filter(|(name, _)| std::env::var_os(name).is_none());
            Command::new(program).args(words).envs(variables).exec().to_string()
        }
        (Err(error), _) => error.to_string(),
        (Ok(_), None) => "no program is named".to_owned(),
    };
    // Nobody but the caller, which collects this, reads it.
    let _ =
        io::Write::write_all(&mut io::stderr(), format!("sandbox: cannot open the network: {failure}\n").as_bytes());
    std::process::exit(126)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_the_command_wins() {
        let mut env = vec![("https_proxy".to_owned(), "mine".to_owned())];
        add(&mut env, variables(3128));
        let value = |name: &str| {
            env.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(value("https_proxy"), ["mine"]);
        assert_eq!(value("HTTPS_PROXY"), ["http://127.0.0.1:3128"]);
        assert_eq!(value("http_proxy"), ["http://127.0.0.1:3128"]);
        assert_eq!(value("NO_PROXY"), ["localhost,127.0.0.1,::1"]);
    }
}
