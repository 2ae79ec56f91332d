//! Heads of HTTP/1 messages: what a client asks of the proxy, and what goes on to either side.

use super::destination::Destination;

/// Most header fields of a message.
const MAX_FIELDS: usize = 100;

/// Fields that concern one connection and not the message (RFC 9110, 7.6.1). How the body is framed is written anew.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// `CONNECT host:port`: a tunnel.
    Connect(Destination),
    /// `GET http://host/…`: a message to pass on.
    Forward {
        to: Destination,
        /// The head for the destination.
        head: Vec<u8>,
        body: Body,
    },
}

/// What follows the head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Length(u64),
    Chunked,
}

/// A request that the proxy does not take.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadRequest {
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
}

fn bad(reason: &'static str) -> BadRequest {
    BadRequest { status: 400, reason }
}

/// Reads a request and the length of its head; `None` as long as it is not all there.
pub(crate) fn request(bytes: &[u8]) -> Result<Option<(Request, usize)>, BadRequest> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut message = httparse::Request::new(&mut fields);
    let length = match message.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(BadRequest { status: 431, reason: "the request has too many header fields" });
        }
        Err(_) => return Err(bad("this is an HTTP/1.1 proxy, and that was no request to one")),
    };
    let (Some(method), Some(target), Some(version)) = (message.method, message.path, message.version) else {
        return Err(bad("this is an HTTP/1.1 proxy, and that was no request to one"));
    };
    if method == "CONNECT" {
        let to = Destination::parse(target, None).map_err(|_| bad("CONNECT takes a host and a port"))?;
        return Ok(Some((Request::Connect(to), length)));
    }
    let (to, path) = absolute(target)?;
    let body = framing(message.headers, version)?;
    let host = if to.port == 80 { to.host.to_string() } else { to.to_string() };
    // The host that was checked, whatever field the client sent.
    let mut head = format!("{method} {path} HTTP/1.{version}\r\nHost: {host}\r\n").into_bytes();
    keep(message.headers, &["host", "content-length"], &mut head);
    match body {
        Body::Chunked => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Body::Length(0) if !has(message.headers, "content-length") => {}
        Body::Length(length) => head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes()),
    }
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    Ok(Some((Request::Forward { to, head, body }, length)))
}

/// Destination and path of `http://host:port/path?query`.
fn absolute(target: &str) -> Result<(Destination, String), BadRequest> {
    let Some((scheme, rest)) = target.split_once("://") else {
        return Err(bad("this is a proxy: ask for http://host/path, or CONNECT host:port"));
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(bad("this proxy passes on http:// requests; anything else goes through CONNECT host:port"));
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let to = Destination::parse(authority, Some(80)).map_err(|_| bad("the address has no usable host and port"))?;
    let path = path.split('#').next().unwrap_or_default();
    Ok((to, if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }))
}

/// How long the body is. What two readers could understand differently is refused.
fn framing(fields: &[httparse::Header<'_>], version: u8) -> Result<Body, BadRequest> {
    let values = |name: &'static str| {
        fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    };
    let mut lengths = values("content-length");
    let length = match lengths.next() {
        Some(value) => Some(decimal(value).ok_or(bad("the content length is no number"))?),
        None => None,
    };
    if lengths.next().is_some() {
        return Err(bad("the request has two content lengths"));
    }
    let mut encodings = values("transfer-encoding");
    match (encodings.next(), length) {
        (None, length) => Ok(Body::Length(length.unwrap_or(0))),
        (Some(_), Some(_)) => Err(bad("the request has a content length and a transfer encoding")),
        (Some(value), None) => {
            let chunked = value.trim_ascii().eq_ignore_ascii_case(b"chunked") && encodings.next().is_none();
            if chunked && version == 1 { Ok(Body::Chunked) } else { Err(bad("the transfer encoding is not `chunked`")) }
        }
    }
}

fn decimal(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn has(fields: &[httparse::Header<'_>], name: &str) -> bool {
    fields.iter().any(|field| field.name.eq_ignore_ascii_case(name))
}

/// Writes the fields that go on: not those of one connection, not what `Connection` names, not `but`.
fn keep(fields: &[httparse::Header<'_>], but: &[&str], head: &mut Vec<u8>) {
    let options: Vec<String> = fields
        .iter()
        .filter(|field| field.name.eq_ignore_ascii_case("connection"))
        .flat_map(|field| field.value.split(|byte| *byte == b','))
        .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
        .collect();
    for field in fields {
        let name = field.name.to_ascii_lowercase();
        let dropped = HOP_BY_HOP.contains(&name.as_str()) || but.contains(&name.as_str()) || options.contains(&name);
        if !dropped {
            head.extend_from_slice(field.name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(field.value);
            head.extend_from_slice(b"\r\n");
        }
    }
}

/// The head of a response, for the client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) head: Vec<u8>,
    /// Another head follows (`100 Continue` and the like).
    pub(crate) interim: bool,
}

/// The destination did not answer in HTTP/1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadResponse;

/// Reads the head of a response and its length; `None` as long as it is not all there.
pub(crate) fn response(bytes: &[u8]) -> Result<Option<(Response, usize)>, BadResponse> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut message = httparse::Response::new(&mut fields);
    let length = match message.parse(bytes).map_err(|_| BadResponse)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let (Some(version), Some(code)) = (message.version, message.code) else { return Err(BadResponse) };
    // Nobody asked for another protocol: that field was taken out.
    if code == 101 {
        return Err(BadResponse);
    }
    let interim = (100..200).contains(&code);
    let mut head = format!("HTTP/1.{version} {code} {}\r\n", message.reason.unwrap_or_default()).into_bytes();
    keep(message.headers, &[], &mut head);
    // The body is passed on as it is framed.
    for field in message.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("transfer-encoding")) {
        head.extend_from_slice(b"Transfer-Encoding: ");
        head.extend_from_slice(field.value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(if interim { b"\r\n".as_slice() } else { b"Connection: close\r\n\r\n" });
    Ok(Some((Response { head, interim }, length)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn forward(text: &str) -> (String, String, Body) {
        match request(text.as_bytes()).unwrap().unwrap() {
            (Request::Forward { to, head, body }, length) => {
                assert_eq!(length, text.len());
                (to.to_string(), String::from_utf8(head).unwrap(), body)
            }
            other => panic!("{other:?}"),
        }
    }

    fn refused(text: &str) -> &'static str {
        request(text.as_bytes()).unwrap_err().reason
    }

    #[test]
    fn a_tunnel_is_asked_for_by_host_and_port() {
        let text = b"CONNECT PyPI.org:443 HTTP/1.1\r\nHost: x\r\n\r\nmore";
        let to = Destination::parse("pypi.org:443", None).unwrap();
        assert_eq!(request(text), Ok(Some((Request::Connect(to), text.len() - 4))));
        for target in ["pypi.org", "http://pypi.org:443/", "user@pypi.org:443", "pypi.org:0", "::1:443", "/"] {
            assert_eq!(
                refused(&format!("CONNECT {target} HTTP/1.1\r\n\r\n")),
                "CONNECT takes a host and a port",
                "{target}"
            );
        }
    }

    #[test]
    fn a_message_goes_on_without_what_concerns_the_connection() {
        let (to, head, body) = forward(
            "POST http://Example.com/a?b=c#d HTTP/1.1\r\nHost: other.example\r\nConnection: X-Mine , close\r\nX-Mine: 1\r\n\
             Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nTE: trailers\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\n\
             Content-Length: 5\r\nAuthorization: Bearer t\r\nAccept: */*\r\n\r\n",
        );
        assert_eq!(to, "example.com:80");
        assert_eq!(
            head,
            "POST /a?b=c HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer t\r\nAccept: */*\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(body, Body::Length(5));
        let (to, head, _) = forward("GET HTTP://example.com:8080 HTTP/1.0\r\n\r\n");
        assert_eq!(
            (to.as_str(), head.as_str()),
            ("example.com:8080", "GET / HTTP/1.0\r\nHost: example.com:8080\r\nConnection: close\r\n\r\n")
        );
        let (_, head, _) = forward("GET http://[::1]?q HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("GET /?q HTTP/1.1\r\nHost: [::1]\r\n"), "{head}");
    }

    #[test]
    fn each_field_that_names_options_counts() {
        let (_, head, _) = forward(
            "GET http://a.example/ HTTP/1.1\r\nConnection: X-A\r\nConnection: X-B\r\nX-A: 1\r\nX-B: 1\r\nX-C: 1\r\n\r\n",
        );
        assert_eq!(head, "GET / HTTP/1.1\r\nHost: a.example\r\nX-C: 1\r\nConnection: close\r\n\r\n");
    }

    #[test]
    fn what_connection_names_cannot_change_the_framing_or_the_host() {
        let (_, head, body) =
            forward("POST http://a.example/ HTTP/1.1\r\nConnection: content-length, host\r\nContent-Length: 7\r\n\r\n");
        assert!(head.contains("Content-Length: 7\r\n") && head.contains("Host: a.example\r\n"), "{head}");
        assert_eq!(body, Body::Length(7));
        let (_, head, body) = forward(
            "POST http://a.example/ HTTP/1.1\r\nConnection: transfer-encoding\r\nTransfer-Encoding: Chunked\r\n\r\n",
        );
        assert!(head.contains("Transfer-Encoding: chunked\r\n"), "{head}");
        assert_eq!(body, Body::Chunked);
    }

    #[test]
    fn what_could_be_understood_in_two_ways_is_refused() {
        let post = |fields: &str| refused(&format!("POST http://a.example/ HTTP/1.1\r\n{fields}\r\n\r\n"));
        assert!(post("Content-Length: 1\r\nContent-Length: 2").contains("two content lengths"));
        assert!(
            post("Content-Length: 1\r\nTransfer-Encoding: chunked")
                .contains("a content length and a transfer encoding")
        );
        assert!(post("Content-Length: +1").contains("no number"));
        assert!(post("Content-Length: 1, 1").contains("no number"));
        assert!(post("Content-Length: 99999999999999999999").contains("no number"));
        assert!(post("Transfer-Encoding: gzip, chunked").contains("not `chunked`"));
        assert!(post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked").contains("not `chunked`"));
        assert!(
            refused("POST http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").contains("not `chunked`")
        );
        for target in
            ["http://a.example@evil.example/", "http://", "http:///x", "http://a.example\\@b.example/", "http://a b/"]
        {
            assert!(request(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes()).is_err(), "{target}");
        }
        assert!(refused("GET https://a.example/ HTTP/1.1\r\n\r\n").contains("CONNECT"));
        assert!(refused("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").contains("this is a proxy"));
        assert!(refused("\u{16}\u{3}\u{1}").contains("no request"));
        let many = "A: b\r\n".repeat(MAX_FIELDS + 1);
        assert_eq!(
            request(format!("GET http://a.example/ HTTP/1.1\r\n{many}\r\n").as_bytes()).unwrap_err().status,
            431
        );
        assert_eq!(request(b"GET http://a.example/ HTTP/1.1\r\nAccept: "), Ok(None));
    }

    #[test]
    fn a_response_says_that_the_connection_ends() {
        let text = b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-A\r\nX-A: 1\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n5";
        let (answer, length) = response(text).unwrap().unwrap();
        assert_eq!(length, text.len() - 1);
        assert!(!answer.interim);
        assert_eq!(
            String::from_utf8(answer.head).unwrap(),
            "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        );
        let (answer, _) = response(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap().unwrap();
        assert_eq!((answer.interim, answer.head.as_slice()), (true, b"HTTP/1.1 100 Continue\r\n\r\n".as_slice()));
        assert_eq!(response(b"HTTP/1.1 200"), Ok(None));
        assert_eq!(response(b"SSH-2.0-x\r\n"), Err(BadResponse));
        assert_eq!(response(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), Err(BadResponse));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_no_head_is_longer_than_what_was_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((_, length))) = request(&bytes) {
                prop_assert!(length <= bytes.len());
            }
            if let Ok(Some((_, length))) = response(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }

        #[test]
        fn the_head_that_goes_on_is_one_head(
            path in "[ -~]{0,30}",
            fields in proptest::collection::vec(("[A-Za-z-]{1,12}", "[ -~\\t]{0,20}"), 0..6),
        ) {
            let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let text = format!("GET http://a.example/{path} HTTP/1.1\r\n{fields}\r\n");
            if let Ok(Some((Request::Forward { to, head, .. }, _))) = request(text.as_bytes()) {
                let head = String::from_utf8(head).unwrap();
                prop_assert_eq!(to.to_string(), "a.example:80");
                prop_assert_eq!(head.matches("\r\n\r\n").count(), 1);
                prop_assert_eq!(head.to_lowercase().matches("\r\nhost:").count(), 1);
                prop_assert!(head.starts_with("GET /") && head.ends_with("Connection: close\r\n\r\n"));
            }
        }
    }
}
