//! The barest HTTP client there is: one socket, no library. What it needs for an exchange, everybody needs.

use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Longest silence of the server.
const PATIENCE: Duration = Duration::from_secs(30);
/// Largest reply.
const LIMIT: usize = 64 << 20;

/// A connection that stays open.
pub(crate) struct Bare {
    stream: TcpStream,
    reply: Vec<u8>,
}

/// The moments of one exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) sent: Instant,
    /// The first event had been read.
    pub(crate) first: Instant,
    /// The reply had been read to its end.
    pub(crate) end: Instant,
}

impl Exchange {
    pub(crate) fn whole(&self) -> Duration {
        self.end - self.sent
    }

    pub(crate) fn until_first(&self) -> Duration {
        self.first - self.sent
    }
}

impl Bare {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, reply: Vec::with_capacity(1 << 20) })
    }

    /// Posts a chat completion and reads the streamed reply to its end.
    pub(crate) fn exchange(&mut self, body: &[u8]) -> Result<Exchange> {
        let mut request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.reply.clear();
        let sent = Instant::now();
        self.stream.write_all(&request)?;
        let mut first = None;
        let mut piece = [0; 64 << 10];
        loop {
            let count = self.stream.read(&mut piece).context("the scripted model fell silent")?;
            let now = Instant::now();
            ensure!(count > 0, "the scripted model closed the connection");
            let searched = self.reply.len().saturating_sub(5);
            self.reply.extend_from_slice(&piece[..count]);
            ensure!(self.reply.len() < LIMIT, "the reply has no end");
            if first.is_none() && contains(&self.reply[searched..], b"data: ") {
                first = Some(now);
            }
            if self.reply.ends_with(b"\r\n0\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.reply[..self.reply.len().min(200)]).into_owned();
                ensure!(head.starts_with("HTTP/1.1 200"), "the scripted model refused: {head}");
                let first = first.context("the reply held no event")?;
                return Ok(Exchange { sent, first, end: now });
            }
            ensure!(self.reply.starts_with(b"HTTP/1.1 200") || count < 12, "the scripted model refused the request");
        }
    }
}

fn contains(text: &[u8], needle: &[u8]) -> bool {
    text.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_testkit::{ScriptedModel, Turn};

    #[test]
    fn an_exchange_has_its_moments_in_order_and_the_connection_serves_again() {
        let model = ScriptedModel::listen(0).unwrap();
        model.always(|_| Turn::text("one two three"));
        let mut client = Bare::connect(model.address()).unwrap();
        let body = br#"{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"ls"}}]}"#;
        for _ in 0..2 {
            let exchange = client.exchange(body).unwrap();
            assert!(exchange.sent < exchange.first && exchange.first <= exchange.end, "{exchange:?}");
        }
    }

    #[test]
    fn a_refusal_is_an_error() {
        let model = ScriptedModel::listen(0).unwrap();
        model.push(Turn::status(500));
        assert!(Bare::connect(model.address()).unwrap().exchange(br#"{"tools":[{}]}"#).is_err());
    }
}
