//! The proxy over real sockets; what is outside is made up.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Mutex;

use async_trait::async_trait;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// An address that is as good as public.
const PUBLIC: &str = "93.184.216.34";

/// A network in which names have the answers they are given, in turn, and every connection ends at one server.
#[derive(Default)]
struct Fake {
    answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
    connected: Mutex<Vec<SocketAddr>>,
    own: Vec<IpAddr>,
    /// Where connections really go; without it they are refused.
    server: Option<SocketAddr>,
    /// Addresses that never answer.
    silent: Vec<IpAddr>,
}

#[async_trait]
impl Outside for Fake {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        answers.get_mut(name).and_then(VecDeque::pop_front).ok_or(io::ErrorKind::NotFound.into())
    }

    async fn is_own(&self, address: IpAddr) -> io::Result<bool> {
        Ok(self.own.contains(&address))
    }

    async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        self.connected.lock().unwrap().push(to);
        if self.silent.contains(&to.ip()) {
            return std::future::pending().await;
        }
        match self.server {
            Some(server) => TcpStream::connect(server).await,
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

impl Fake {
    fn knows(self, name: &str, answers: &[&[&str]]) -> Self {
        let read = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), answers.iter().map(read).collect());
        self
    }
}

/// A proxy over a fake network.
struct Rig {
    fake: Arc<Fake>,
    proxy: Proxy,
    address: SocketAddr,
}

impl Rig {
    async fn new(allow: &[&str], fake: Fake) -> Self {
        Self::with(allow, fake, ProxyLimits::default()).await
    }

    async fn with(allow: &[&str], fake: Fake, limits: ProxyLimits) -> Self {
        let allow: Vec<String> = allow.iter().map(|text| (*text).to_owned()).collect();
        let fake = Arc::new(fake);
        let outside = Arc::clone(&fake) as Arc<dyn Outside>;
        let egress = Arc::new(Egress { allow: AllowList::parse(&allow).unwrap(), outside, limits });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { fake, proxy: Proxy::start(listener, egress, "alice/t1"), address }
    }

    async fn client(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// All that comes back for these bytes.
    async fn ask(&self, bytes: &[u8]) -> String {
        let mut client = self.client().await;
        client.write_all(bytes).await.unwrap();
        rest(&mut client).await
    }

    /// The first line that comes back for `CONNECT`.
    async fn connect(&self, to: &str) -> String {
        let answer = self.ask(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes()).await;
        answer.lines().next().unwrap_or_default().to_owned()
    }

    fn connected(&self) -> Vec<String> {
        self.fake.connected.lock().unwrap().iter().map(SocketAddr::to_string).collect()
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset after the answer is not what these tests are about.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

/// A server that takes one connection after another, and for each reads up to `until` and answers with `answer`; what it read.
async fn server(until: &'static [u8], answer: &'static [u8]) -> (SocketAddr, tokio::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = tokio::sync::mpsc::channel(16);
    let work = async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut seen = Vec::new();
            while !seen.ends_with(until) && client.read_buf(&mut seen).await.unwrap() > 0 {}
            client.write_all(answer).await.unwrap();
            sender.send(String::from_utf8_lossy(&seen).into_owned()).await.unwrap();
        }
    };
    // Ends with the runtime of the test.
    #[expect(clippy::disallowed_methods, reason = "a stand-in that lives as long as its test")]
    tokio::spawn(work);
    (address, receiver)
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_they_are_counted() {
    let (address, mut seen) = server(b"bye", b"hello").await;
    let rig =
        Rig::new(&["pypi.org"], Fake { server: Some(address), ..Fake::default() }.knows("pypi.org", &[&[PUBLIC]]))
            .await;
    // The first bytes of the tunnel come together with the request.
    let answer = rig.ask(b"CONNECT PyPI.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\n\r\nbytes, bye").await;
    assert_eq!(answer, "HTTP/1.1 200 Connection established\r\n\r\nhello");
    assert_eq!(seen.recv().await.unwrap(), "bytes, bye");
    assert_eq!(rig.connected(), [format!("{PUBLIC}:443")]);
    let total = rig.proxy.stop().await;
    assert_eq!((total.connections, total.sent_bytes, total.received_bytes), (1, 10, 5));
    assert_eq!(total.trouble, []);
}

#[tokio::test]
async fn a_message_is_passed_on_with_the_host_that_was_checked() {
    let (address, mut seen) =
        server(b"abcde", b"HTTP/1.1 200 OK\r\nKeep-Alive: 5\r\nContent-Length: 2\r\n\r\nok").await;
    let fake = Fake { server: Some(address), ..Fake::default() }.knows("a.example", &[&[PUBLIC]]);
    let rig = Rig::new(&["a.example"], fake).await;
    // What follows the body is not passed on: a second request could name another host.
    let request = "POST http://a.example/p HTTP/1.1\r\nHost: b.example\r\nProxy-Connection: keep-alive\r\nContent-Length: 5\r\n\r\n\
                   abcdePOST http://a.example/ HTTP/1.1\r\nHost: secret.example\r\n\r\n";
    let answer = rig.ask(request.as_bytes()).await;
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    assert_eq!(
        seen.recv().await.unwrap(),
        "POST /p HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nConnection: close\r\n\r\nabcde"
    );
    assert_eq!(rig.connected(), [format!("{PUBLIC}:80")]);
}

#[tokio::test]
async fn interim_answers_come_through_and_a_chunked_body_too() {
    let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let (address, mut seen) = server(b"0\r\n\r\n", answer).await;
    let fake = Fake { server: Some(address), ..Fake::default() }.knows("a.example", &[&[PUBLIC]]);
    let rig = Rig::new(&["a.example"], fake).await;
    let request = "PUT http://a.example/ HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let answer = rig.ask(request.as_bytes()).await;
    assert_eq!(
        answer,
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"
    );
    let seen = seen.recv().await.unwrap();
    assert!(seen.contains("Expect: 100-continue\r\n") && seen.ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "{seen}");
}

#[tokio::test]
async fn a_destination_that_is_not_allowed_is_refused_before_anything_is_asked() {
    let rig =
        Rig::new(&["pypi.org", "*.pythonhosted.org:443"], Fake::default().knows("evil.example", &[&[PUBLIC]])).await;
    let answer = rig.ask(b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n").await;
    assert_eq!(
        answer,
        "HTTP/1.1 403 evil.example:443: it is not in sandbox.network.allow\r\nContent-Type: text/plain\r\nContent-Length: 120\r\n\
         X-Deerflow-Reason: evil.example:443: it is not in sandbox.network.allow; to allow it, add \"evil.example\" to that list in \
         the configuration\r\nConnection: close\r\n\r\nevil.example:443: it is not in sandbox.network.allow; to allow it, add \
         \"evil.example\" to that list in the configuration\n"
    );
    assert_eq!(
        rig.connect("files.pythonhosted.org:22").await,
        "HTTP/1.1 403 files.pythonhosted.org:22: sandbox.network.allow has this host for port 443 only"
    );
    assert_eq!(
        rig.connect("pypi.org:22").await,
        "HTTP/1.1 403 pypi.org:22: sandbox.network.allow has this host for port 80 and 443 only"
    );
    let plain = rig.ask(b"GET http://evil.example/secret?token=x HTTP/1.1\r\nHost: pypi.org\r\n\r\n").await;
    assert!(plain.starts_with("HTTP/1.1 403 evil.example:80: ") && !plain.contains("secret"), "{plain}");
    for to in ["127.0.0.1:22", "localhost:80", "[::1]:443", "2130706433:80", "169.254.169.254:80"] {
        assert!(rig.connect(to).await.starts_with("HTTP/1.1 403 "), "{to}");
    }
    assert_eq!((rig.fake.asked.lock().unwrap().len(), rig.connected().len()), (0, 0));
    let total = rig.proxy.stop().await;
    assert_eq!(total.connections, 0);
    let told: Vec<String> = total.trouble.iter().map(ToString::to_string).collect();
    assert_eq!(told[0], "evil.example:443 was refused: it is not in sandbox.network.allow");
    assert_eq!(told.len(), 9);
}

#[tokio::test]
async fn an_allowed_name_does_not_lead_to_a_private_address() {
    for (address, kind) in [
        ("10.1.2.3", "a private address"),
        ("127.0.0.1", "a loopback address"),
        ("::1", "a loopback address"),
        ("169.254.1.1", "a link-local address"),
        ("100.64.0.1", "an address that a carrier shares"),
        ("::ffff:192.168.0.1", "a private address"),
        ("64:ff9b::7f00:1", "a loopback address"),
        ("2002:a00:1::1", "a private address"),
        ("fd00::1", "a private address"),
        ("0.0.0.0", "an address of no machine"),
        ("198.51.100.7", "a reserved address"),
    ] {
        let fake = Fake::default().knows("a.example", &[&[address]]);
        let rig = Rig::new(&["a.example", "*", "10.1.2.3:9"], fake).await;
        assert_eq!(
            rig.connect("a.example:443").await,
            format!(
                "HTTP/1.1 403 a.example:443: its name leads to {kind}, which sandbox.network.allow does not write out"
            ),
        );
        assert_eq!(rig.connected(), Vec::<String>::new(), "{address}");
    }
    let rig = Rig::new(&["*"], Fake::default().knows("a.example", &[&["169.254.169.254"]])).await;
    let answer = rig.connect("a.example:80").await;
    assert_eq!(answer, "HTTP/1.1 403 a.example:80: its name leads to a cloud's metadata service");
}

#[tokio::test]
async fn one_private_address_among_public_ones_refuses_them_all() {
    for mixed in [[PUBLIC, "10.0.0.1"], ["10.0.0.1", PUBLIC]] {
        let rig = Rig::new(&["a.example"], Fake::default().knows("a.example", &[&mixed])).await;
        assert!(rig.connect("a.example:443").await.contains("its name leads to a private address"));
        assert_eq!(rig.connected(), Vec::<String>::new());
    }
    // Even one that would not be tried any more.
    let many: Vec<&str> = std::iter::repeat_n(PUBLIC, 20).chain(["::1"]).collect();
    let rig = Rig::new(&["a.example"], Fake::default().knows("a.example", &[&many])).await;
    assert!(rig.connect("a.example:443").await.contains("its name leads to a loopback address"));
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_asked_once_and_reached_where_it_was_checked() {
    let (address, _seen) = server(b"x", b"").await;
    let fake = Fake { server: Some(address), ..Fake::default() };
    let rig = Rig::new(&["rebind.example"], fake.knows("rebind.example", &[&[PUBLIC], &["127.0.0.1"]])).await;
    let answer = rig.ask(b"CONNECT rebind.example:443 HTTP/1.1\r\n\r\nx").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(*rig.fake.asked.lock().unwrap(), ["rebind.example"]);
    assert_eq!(rig.connected(), [format!("{PUBLIC}:443")]);
    // The next connection asks again, and gets no further.
    assert!(rig.connect("rebind.example:443").await.contains("a loopback address"));
    assert_eq!(rig.connected().len(), 1);
}

#[tokio::test]
async fn an_address_of_this_machine_is_refused_although_it_looks_public() {
    let fake = Fake { own: vec![PUBLIC.parse().unwrap()], ..Fake::default() };
    let rig = Rig::new(&["a.example", "*"], fake.knows("a.example", &[&[PUBLIC]])).await;
    assert!(rig.connect("a.example:443").await.contains("an address of the server's own machine"));
    assert!(rig.connect(&format!("{PUBLIC}:443")).await.contains("it is an address of the server's own machine"));
}

#[tokio::test]
async fn an_address_that_is_written_out_is_reached_on_its_port_only() {
    let (address, _seen) = server(b"x", b"there").await;
    let rig = Rig::new(&["10.0.0.5:8080"], Fake { server: Some(address), ..Fake::default() }).await;
    let answer = rig.ask(b"CONNECT [::ffff:10.0.0.5]:8080 HTTP/1.1\r\n\r\nx").await;
    assert!(answer.ends_with("\r\n\r\nthere"), "{answer}");
    assert!(rig.connect("10.0.0.5:22").await.contains("for port 8080 only"));
    assert!(rig.connect("10.0.0.6:8080").await.contains("it is not in sandbox.network.allow"));
    assert_eq!(rig.connected(), ["10.0.0.5:8080"]);
}

#[tokio::test]
async fn what_cannot_be_reached_is_told_apart_from_what_may_not() {
    let rig = Rig::new(&["a.example", "b.example"], Fake::default().knows("b.example", &[&[PUBLIC]])).await;
    assert_eq!(rig.connect("a.example:443").await, "HTTP/1.1 502 a.example:443: its name does not resolve");
    assert_eq!(rig.connect("b.example:443").await, "HTTP/1.1 502 b.example:443: connecting failed: connection refused");
    let total = rig.proxy.stop().await;
    assert_eq!(total.trouble.iter().map(|trouble| trouble.refused).collect::<Vec<_>>(), [false, false]);
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_is_silent() {
    let (address, _seen) = server(b"x", b"").await;
    let silent = "2606:4700::1";
    let limits = ProxyLimits { connect: Duration::from_millis(200), ..ProxyLimits::default() };
    let fake = Fake { server: Some(address), silent: vec![silent.parse().unwrap()], ..Fake::default() };
    let fake = fake.knows("a.example", &[&[silent, PUBLIC]]).knows("b.example", &[&[silent]]);
    let rig = Rig::with(&["*.example"], fake, limits).await;
    assert!(rig.ask(b"CONNECT a.example:443 HTTP/1.1\r\n\r\nx").await.starts_with("HTTP/1.1 200 "));
    assert_eq!(rig.connected(), [format!("[{silent}]:443"), format!("{PUBLIC}:443")]);
    assert_eq!(rig.connect("b.example:443").await, "HTTP/1.1 504 b.example:443: connecting took too long");
}

#[tokio::test]
async fn garbage_slow_and_huge_requests_are_answered_and_cut() {
    let limits = ProxyLimits { head: Duration::from_millis(200), ..ProxyLimits::default() };
    let rig = Rig::with(&["a.example"], Fake::default(), limits).await;
    let first = |answer: String| answer.lines().next().unwrap_or_default().to_owned();
    assert!(first(rig.ask(b"\x16\x03\x01\x02\x00").await).starts_with("HTTP/1.1 400 this is an HTTP/1.1 proxy"));
    assert!(first(rig.ask(b"SSH-2.0-OpenSSH_9\r\n").await).starts_with("HTTP/1.1 400 "));
    assert!(
        first(rig.ask(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await).starts_with("HTTP/1.1 400 this is a proxy")
    );
    let huge = format!("GET http://a.example/{} HTTP/1.1\r\n\r\n", "x".repeat(200_000));
    assert_eq!(first(rig.ask(huge.as_bytes()).await), "HTTP/1.1 431 the head of the request is too long");
    let slow = rig.ask(b"CONNECT a.example:443 HT").await;
    assert_eq!(first(slow), "HTTP/1.1 408 the request did not come in time");
    let total = rig.proxy.stop().await;
    assert_eq!((total.trouble.len(), total.connections), (0, 0));
}

#[tokio::test]
async fn a_destination_that_does_not_speak_http_is_told_so() {
    let (address, _seen) = server(b"\r\n\r\n", b"SSH-2.0-OpenSSH_9\r\n").await;
    let rig =
        Rig::new(&["a.example"], Fake { server: Some(address), ..Fake::default() }.knows("a.example", &[&[PUBLIC]]))
            .await;
    let answer = rig.ask(b"GET http://a.example/ HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502 it did not answer in HTTP/1.1\r\n"), "{answer}");
}

#[tokio::test]
async fn a_connection_on_which_nothing_moves_is_cut() {
    let limits = ProxyLimits { idle: Duration::from_millis(100), ..ProxyLimits::default() };
    let (address, _seen) = server(b"never", b"").await;
    let fake = Fake { server: Some(address), ..Fake::default() }.knows("a.example", &[&[PUBLIC], &[PUBLIC]]);
    let rig = Rig::with(&["a.example"], fake, limits).await;
    assert!(rig.ask(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 200 "));
    assert_eq!(rig.ask(b"GET http://a.example/ HTTP/1.1\r\n\r\n").await, "");
}

#[tokio::test]
async fn more_connections_than_there_may_be_wait_for_their_turn() {
    let limits = ProxyLimits { connections: 2, ..ProxyLimits::default() };
    let rig = Rig::with(&[], Fake::default(), limits).await;
    let (first, _second) = (rig.client().await, rig.client().await);
    let mut third = rig.client().await;
    third.write_all(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n").await.unwrap();
    let mut byte = [0];
    let waits = tokio::time::timeout(Duration::from_millis(200), third.peek(&mut byte)).await;
    assert!(waits.is_err(), "{waits:?}");
    drop(first);
    assert!(rest(&mut third).await.starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn stopping_ends_every_connection_and_the_socket() {
    let (address, _seen) = server(b"never", b"").await;
    let fake = Fake { server: Some(address), ..Fake::default() }.knows("a.example", &[&[PUBLIC]]);
    let rig = Rig::new(&["a.example"], fake).await;
    let mut tunnel = rig.client().await;
    tunnel.write_all(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n").await.unwrap();
    let mut byte = [0];
    tunnel.read_exact(&mut byte).await.unwrap();
    let (address, total) = (rig.address, rig.proxy.stop().await);
    assert_eq!(total.connections, 1);
    assert!(rest(&mut tunnel).await.ends_with("\r\n\r\n"));
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is in the list and whatever a name resolves to: no connection is made to a special address, unless the request
    /// was for that very address, written out.
    #[test]
    fn nothing_special_is_ever_reached_through_a_name(
        allow in proptest::collection::vec("\\*|a\\.example|\\*\\.example|10\\.0\\.0\\.1:443|127\\.0\\.0\\.1:443", 1..4),
        addresses in proptest::collection::vec(prop_oneof![
            any::<u32>().prop_map(|bits| IpAddr::from(Ipv4Addr::from(bits))),
            any::<u128>().prop_map(|bits| IpAddr::from(std::net::Ipv6Addr::from(bits))),
            any::<u32>().prop_map(|bits| IpAddr::from(Ipv4Addr::from(bits).to_ipv6_mapped())),
            Just("10.0.0.1".parse().unwrap()), Just("127.0.0.1".parse().unwrap()), Just(PUBLIC.parse().unwrap()),
        ], 0..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
            let fake = Fake::default();
            fake.answers.lock().unwrap().insert("a.example".to_owned(), [addresses.clone()].into());
            let rig = Rig::new(&allow, fake).await;
            let answer = rig.connect("a.example:443").await;
            let connected = rig.fake.connected.lock().unwrap().clone();
            let special = addresses.iter().any(|address| address::special(*address).is_some());
            let named = allow.iter().any(|pattern| !pattern.contains(':'));
            prop_assert!(connected.iter().all(|to| address::special(to.ip()).is_none()), "{:?}", connected);
            prop_assert_eq!(connected.is_empty(), !named || special || addresses.is_empty(), "{}", answer);
            Ok(())
        })?;
    }
}
