//! The proxy of one command.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Egress;
use super::address::{Special, special};
use super::allow::{AllowList, Denied, Permission};
use super::destination::{Destination, Host};
use super::head::{self, BadRequest, Body, Request};
use super::relay::{Activity, copy};
use super::report::{Ledger, NetworkUse};

/// Addresses of a name that are tried.
const ATTEMPTS: usize = 4;
/// After a refusal: how long, and how much, a client may still send before the connection is cut, so that it gets to read why.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 256 * 1024;
/// After a failure to accept, which is a lack of something.
const PAUSE: Duration = Duration::from_millis(50);

/// A running proxy. Dropping it ends it.
pub(crate) struct Proxy {
    /// The one task that accepts, and owns the connections' tasks.
    task: JoinSet<()>,
    stop: CancellationToken,
    ledger: Arc<Ledger>,
}

impl Proxy {
    /// Serves a listening socket for a command of this thread.
    pub(crate) fn start(listener: TcpListener, egress: Arc<Egress>, thread: &str) -> Self {
        let ledger = Arc::new(Ledger::new(thread));
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(accept(listener, Arc::new(Context { egress, ledger: Arc::clone(&ledger) }), stop.clone()));
        Self { task, stop, ledger }
    }

    /// Ends every connection and waits for that; what there was.
    pub(crate) async fn stop(mut self) -> NetworkUse {
        self.stop.cancel();
        while self.task.join_next().await.is_some() {}
        self.ledger.total()
    }
}

struct Context {
    egress: Arc<Egress>,
    ledger: Arc<Ledger>,
}

async fn accept(listener: TcpListener, context: Arc<Context>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        let room = connections.len() < context.egress.limits.connections;
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if room => match accepted {
                Ok((client, _)) => {
                    let context = Arc::clone(&context);
                    connections.spawn(async move { context.serve(client).await });
                }
                Err(error) => {
                    tracing::warn!(%error, "the sandbox's proxy cannot accept");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// Why a client gets an answer of the proxy and not of its destination. One line, plain ASCII.
#[derive(Debug)]
struct Trouble {
    status: u16,
    /// Without the destination.
    reason: String,
    /// What to do about it.
    hint: Option<String>,
}

impl Trouble {
    fn refused(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: 403, reason: reason.into(), hint: Some(hint.into()) }
    }

    fn failed(status: u16, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into(), hint: None }
    }
}

impl Context {
    async fn serve(&self, mut client: TcpStream) {
        let limits = &self.egress.limits;
        let mut bytes = Vec::new();
        let request = match timeout(limits.head, read_request(&mut client, &mut bytes, limits.head_bytes)).await {
            Ok(Ok(request)) => request,
            Ok(Err(Ending::Gone)) => return,
            Ok(Err(Ending::Bad(BadRequest { status, reason }))) => {
                return answer(client, status, None, reason, None).await;
            }
            Err(_) => return answer(client, 408, None, "the request did not come in time", None).await,
        };
        let to = match &request {
            Request::Connect(to) | Request::Forward { to, .. } => to.clone(),
        };
        let server = match self.reach(&to).await {
            Ok(server) => server,
            Err(Trouble { status, reason, hint }) => {
                self.ledger.failed(&to, status == 403, &reason);
                return answer(client, status, Some(&to), &reason, hint.as_deref()).await;
            }
        };
        self.ledger.reached(&to);
        let outcome = match request {
            Request::Connect(_) => self.tunnel(client, server, &bytes).await,
            Request::Forward { head, body, .. } => self.forward(client, server, (&head, body), &bytes).await,
        };
        match outcome {
            Ok(()) => tracing::debug!(destination = %to, "a connection of a command has ended"),
            Err(error) => tracing::debug!(destination = %to, %error, "a connection of a command was cut"),
        }
    }

    /// Connects to a destination, if it is allowed, at an address that has been checked.
    async fn reach(&self, to: &Destination) -> Result<TcpStream, Trouble> {
        let permission = self.egress.allow.permission(to).map_err(|denied| match denied {
            Denied::Host => Trouble::refused("it is not in sandbox.network.allow", add(to)),
            Denied::Port(ports) => {
                let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                let reason = format!("sandbox.network.allow has this host for port {} only", ports.join(" and "));
                Trouble::refused(reason, add(to))
            }
        })?;
        let limit = self.egress.limits.connect;
        let addresses = match permission {
            Permission::Explicit(address) => vec![address],
            Permission::Public => {
                let addresses = match &to.host {
                    Host::Address(address) => vec![*address],
                    Host::Name(name) => match timeout(limit, self.egress.outside.resolve(name)).await {
                        Ok(Ok(addresses)) => addresses,
                        Ok(Err(error)) => {
                            tracing::debug!(name, %error, "a name does not resolve");
                            return Err(Trouble::failed(502, "its name does not resolve"));
                        }
                        Err(_) => return Err(Trouble::failed(504, "its name was not resolved in time")),
                    },
                };
                self.check(to, &addresses).await?;
                addresses
            }
        };
        self.connect(&addresses, to.port).await
    }

    /// Refuses a host if any of its addresses, tried or not, is special: which one is asked for must not decide.
    async fn check(&self, to: &Destination, addresses: &[IpAddr]) -> Result<(), Trouble> {
        for address in addresses {
            let kind = match special(*address) {
                Some(kind) => Some(kind),
                None => match self.egress.outside.is_own(*address).await {
                    Ok(own) => own.then_some(Special::Own),
                    Err(error) => {
                        tracing::warn!(%error, "the addresses of this machine are not known");
                        return Err(Trouble::failed(502, "its address could not be checked"));
                    }
                },
            };
            let Some(kind) = kind else { continue };
            // The client learns the kind; the address is for the log.
            tracing::info!(destination = %to, %address, %kind, "an address is refused");
            let verb = if matches!(to.host, Host::Name(_)) { "its name leads to" } else { "it is" };
            return Err(if kind == Special::Metadata {
                Trouble::refused(format!("{verb} {kind}"), "this is never reached")
            } else {
                let hint = format!("to allow it, add the address itself with its port, like \"10.0.0.5:{}\"", to.port);
                Trouble::refused(format!("{verb} {kind}, which sandbox.network.allow does not write out"), hint)
            });
        }
        Ok(())
    }

    /// Tries the addresses in turn; together they have the time of one.
    async fn connect(&self, addresses: &[IpAddr], port: u16) -> Result<TcpStream, Trouble> {
        let end = Instant::now() + self.egress.limits.connect;
        let addresses = &addresses[..addresses.len().min(ATTEMPTS)];
        let mut last = Trouble::failed(502, "its name has no address");
        for (at, address) in addresses.iter().enumerate() {
            let share =
                end.saturating_duration_since(Instant::now()) / u32::try_from(addresses.len() - at).unwrap_or(1);
            let attempt = self.egress.outside.connect(SocketAddr::new(*address, port));
            match timeout_at(Instant::now() + share, attempt).await {
                Ok(Ok(server)) => {
                    let _ = server.set_nodelay(true);
                    return Ok(server);
                }
                Ok(Err(error)) => last = Trouble::failed(502, format!("connecting failed: {}", error.kind())),
                Err(_) => last = Trouble::failed(504, "connecting took too long"),
            }
        }
        Err(last)
    }

    /// Moves bytes both ways until both ends are done; `first` came with the request.
    async fn tunnel(&self, mut client: TcpStream, mut server: TcpStream, first: &[u8]) -> std::io::Result<()> {
        let _ = client.set_nodelay(true);
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        let activity = Activity::new();
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.split(), server.split());
        let up = async {
            to_server.write_all(first).await?;
            self.ledger.sent(first.len() as u64);
            copy(&mut from_client, &mut to_server, u64::MAX, &activity, |count| self.ledger.sent(count)).await?;
            to_server.shutdown().await
        };
        let down = async {
            copy(&mut from_server, &mut to_client, u64::MAX, &activity, |count| self.ledger.received(count)).await?;
            to_client.shutdown().await
        };
        tokio::select! {
            both = async { tokio::try_join!(up, down) } => both.map(drop),
            () = activity.idle(self.egress.limits.idle) => Err(std::io::ErrorKind::TimedOut.into()),
        }
    }

    /// Passes one message on, and its answer back.
    async fn forward(
        &self,
        mut client: TcpStream,
        mut server: TcpStream,
        (head, body): (&[u8], Body),
        first: &[u8],
    ) -> std::io::Result<()> {
        let activity = Activity::new();
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.split(), server.split());
        // Of a chunked body the end is not looked for: the destination has been told that nothing follows it.
        let length = if let Body::Length(length) = body { length } else { u64::MAX };
        let first = &first[..first.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
        let up = async {
            to_server.write_all(head).await?;
            to_server.write_all(first).await?;
            self.ledger.sent((head.len() + first.len()) as u64);
            let rest = length - first.len() as u64;
            let moved =
                copy(&mut from_client, &mut to_server, rest, &activity, |count| self.ledger.sent(count)).await?;
            // The client has given up in the middle.
            if moved < rest { to_server.shutdown().await } else { Ok(()) }
        };
        let down = async {
            let mut bytes = Vec::new();
            loop {
                match read_response(&mut from_server, &mut bytes, self.egress.limits.head_bytes).await {
                    Some(answer) => {
                        to_client.write_all(&answer.head).await?;
                        self.ledger.received(answer.head.len() as u64);
                        if !answer.interim {
                            break;
                        }
                    }
                    None => {
                        let reason = "it did not answer in HTTP/1.1";
                        return to_client.write_all(&message(502, reason, reason)).await;
                    }
                }
            }
            to_client.write_all(&bytes).await?;
            self.ledger.received(bytes.len() as u64);
            copy(&mut from_server, &mut to_client, u64::MAX, &activity, |count| self.ledger.received(count)).await?;
            to_client.shutdown().await
        };
        // A destination may answer before it has read all, or anything: the answer is what counts.
        let up = async {
            let _ = up.await;
            std::future::pending::<()>().await
        };
        tokio::select! {
            answered = down => answered,
            () = up => Ok(()),
            () = activity.idle(self.egress.limits.idle) => Err(std::io::ErrorKind::TimedOut.into()),
        }
    }
}

/// How to allow a destination.
fn add(to: &Destination) -> String {
    let web = matches!(to.port, 80 | 443) && matches!(to.host, Host::Name(_));
    let pattern = if web { to.host.to_string() } else { to.to_string() };
    match AllowList::parse(std::slice::from_ref(&pattern)) {
        Ok(_) => format!("to allow it, add \"{pattern}\" to that list in the configuration"),
        Err(bad) => bad.into_iter().map(|bad| bad.help).collect(),
    }
}

/// Why there is no request.
enum Ending {
    /// The client went away.
    Gone,
    Bad(BadRequest),
}

/// Reads the head of a request; what came after it stays in `bytes`.
async fn read_request(client: &mut TcpStream, bytes: &mut Vec<u8>, most: usize) -> Result<Request, Ending> {
    loop {
        let old = bytes.len();
        match client.read_buf(bytes).await {
            Ok(0) | Err(_) => return Err(Ending::Gone),
            Ok(_) => {}
        }
        // Only the end of a line can be the end of a head; what comes first may be no head at all.
        let line = old == 0 || bytes[old..].contains(&b'\n');
        if line && let Some((request, length)) = head::request(bytes).map_err(Ending::Bad)? {
            bytes.drain(..length);
            return Ok(request);
        }
        if bytes.len() > most {
            return Err(Ending::Bad(BadRequest { status: 431, reason: "the head of the request is too long" }));
        }
    }
}

/// The same for a response; `None` if there is none.
async fn read_response(
    server: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    most: usize,
) -> Option<head::Response> {
    loop {
        if let Some((answer, length)) = head::response(bytes).ok()? {
            bytes.drain(..length);
            return Some(answer);
        }
        if bytes.len() > most || server.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// The proxy's own answer. The first line says why: some clients show nothing else.
fn message(status: u16, line: &str, text: &str) -> Vec<u8> {
    let length = text.len() + 1;
    format!(
        "HTTP/1.1 {status} {line}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nX-Deerflow-Reason: {text}\r\n\
         Connection: close\r\n\r\n{text}\n"
    )
    .into_bytes()
}

/// Answers a client and lets it read that.
async fn answer(mut client: TcpStream, status: u16, to: Option<&Destination>, reason: &str, hint: Option<&str>) {
    let line = to.map_or_else(|| reason.to_owned(), |to| format!("{to}: {reason}"));
    let text = hint.map_or_else(|| line.clone(), |hint| format!("{line}; {hint}"));
    let work = async {
        client.write_all(&message(status, &line, &text)).await?;
        client.shutdown().await?;
        // Cutting a connection with unread input would take the answer away from the client.
        tokio::io::copy(&mut client.take(LINGER_BYTES), &mut tokio::io::sink()).await
    };
    let _ = timeout(LINGER, work).await;
}
