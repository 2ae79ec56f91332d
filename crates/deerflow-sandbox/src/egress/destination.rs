//! A host and a port, as clients and configurations write them.

use std::fmt;
use std::net::IpAddr;

/// A host in its one form: a lower-case ASCII name without a final dot, or an address.
///
/// Every way of writing an address (`127.1`, `0x7f000001`, `::ffff:127.0.0.1`) is that address, never a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Reads a host; an IPv6 address is in brackets. The error says what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        match url::Host::parse(text.strip_suffix('.').unwrap_or(text)) {
            Ok(url::Host::Ipv4(address)) => Ok(Self::Address(address.into())),
            Ok(url::Host::Ipv6(address)) => Ok(Self::Address(IpAddr::from(address).to_canonical())),
            Ok(url::Host::Domain(name)) if is_name(&name) => Ok(Self::Name(name)),
            Ok(url::Host::Domain(_)) | Err(_) => Err("not a host name or address"),
        }
    }
}

/// True for what DNS and a header can carry without any further thought.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(plain);
    name.len() <= 253 && name.split('.').all(label)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Where a client wants to go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl Destination {
    /// Reads `host:port`, or `host` where there is a default.
    pub(crate) fn parse(text: &str, default_port: Option<u16>) -> Result<Self, &'static str> {
        let (host, port) = split(text)?;
        let port = match port {
            Some(port) => parse_port(port)?,
            None => default_port.ok_or("the port is missing")?,
        };
        Ok(Self { host: Host::parse(host)?, port })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Host and port, neither looked at yet.
pub(crate) fn split(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    if text.starts_with('[') {
        let end = text.find(']').ok_or("a bracket is not closed")? + 1;
        return match &text[end..] {
            "" => Ok((text, None)),
            rest => rest.strip_prefix(':').map(|port| (&text[..end], Some(port))).ok_or("not a host name or address"),
        };
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => Err("an IPv6 address is written in brackets"),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

/// A port other than 0, in digits.
pub(crate) fn parse_port(text: &str) -> Result<u16, &'static str> {
    let digits = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| digits && *port > 0);
    port.ok_or("a port is a number from 1 to 65535")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> String {
        Host::parse(text).map_or_else(|error| format!("error: {error}"), |host| format!("{host:?}"))
    }

    #[test]
    fn each_host_has_one_form() {
        for (text, expected) in [
            ("PyPI.org", "Name(\"pypi.org\")"),
            ("pypi.org.", "Name(\"pypi.org\")"),
            ("Bücher.example", "Name(\"xn--bcher-kva.example\")"),
            ("xn--bcher-kva.example", "Name(\"xn--bcher-kva.example\")"),
            ("a_b.example", "Name(\"a_b.example\")"),
            ("127.0.0.1", "Address(127.0.0.1)"),
            ("127.1", "Address(127.0.0.1)"),
            ("0x7f000001", "Address(127.0.0.1)"),
            ("2130706433", "Address(127.0.0.1)"),
            ("0177.0.0.1", "Address(127.0.0.1)"),
            ("１２７.0.0.1", "Address(127.0.0.1)"),
            ("[::ffff:10.0.0.5]", "Address(10.0.0.5)"),
            ("[::1]", "Address(::1)"),
        ] {
            assert_eq!(host(text), expected, "{text}");
        }
        for text in
            ["", ".", "a..b", "a.b..", "a b", "a/b", "a\\b", "a@b", "::1", "[::1", "[fe80::1%eth0]", "1.2.3.4.5", "a,b"]
        {
            assert!(Host::parse(text).is_err(), "{text:?}: {}", host(text));
        }
        assert!(Host::parse(&format!("{}.example", "a".repeat(64))).is_err());
        assert!(Host::parse(&"a.".repeat(127)).is_ok() && Host::parse(&"a.".repeat(128)).is_err());
    }

    #[test]
    fn a_destination_has_a_port() {
        let read = |text: &str| Destination::parse(text, None).map(|destination| destination.to_string());
        assert_eq!(read("Example.com:443").unwrap(), "example.com:443");
        assert_eq!(read("[::1]:80").unwrap(), "[::1]:80");
        assert_eq!(read("example.com"), Err("the port is missing"));
        assert_eq!(Destination::parse("[::1]", Some(80)).unwrap().to_string(), "[::1]:80");
        for port in ["", "0", "65536", "+1", "-1", "8 ", "0x50", "000080"] {
            assert_eq!(read(&format!("a.b:{port}")), Err("a port is a number from 1 to 65535"), "{port:?}");
        }
        assert_eq!(read("::1:80"), Err("an IPv6 address is written in brackets"));
        assert!(read("[::1]80").is_err() && read("user@a.b:80").is_err() && read("a.b:80:80").is_err());
    }
}
