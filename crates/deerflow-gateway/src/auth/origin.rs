//! Where a page comes from, and where it thinks it talks to.
//!
//! Behind a proxy the client's address of this server is in headers that the proxy sets. They decide nothing but whether a
//! browser's own `Origin` is ours, so they are read whoever sent them: a foreign page cannot set them without asking first.

use axum::http::{HeaderMap, header};
use std::net::IpAddr;
use url::Url;

/// Scheme, host and port of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    https: bool,
    host: String,
    port: u16,
}

impl Origin {
    /// `scheme://host[:port]`; anything after it is ignored. `None` for what is no web origin, `null` say.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text.trim()).ok()?;
        let https = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        Some(Self { https, host: url.host_str()?.to_ascii_lowercase(), port: url.port_or_known_default()? })
    }

    /// Whether the page was served by this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (scheme, known) = if self.https { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == known { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// This server as the client addresses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// What a proxy says; without one it is plain HTTP as far as we know.
    https: Option<bool>,
    host: String,
    port: Option<u16>,
}

impl Target {
    /// From `Forwarded`, `X-Forwarded-*` and `Host`, in this order. `None` without a usable host.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let forwarded = first(headers, "forwarded");
        let told = |name: &str| forwarded.and_then(|value| parameter(value, name));
        let proto = told("proto").or_else(|| first(headers, "x-forwarded-proto").map(str::to_owned));
        let host = told("host")
            .or_else(|| first(headers, "x-forwarded-host").map(str::to_owned))
            .or_else(|| text(headers, header::HOST.as_str()).map(str::to_owned))?;
        let https = proto.map(|proto| proto.eq_ignore_ascii_case("https"));
        let (host, port) = split_authority(&host)?;
        Some(Self { https, host, port })
    }

    /// Whether the client speaks HTTPS to us or to our proxy.
    pub(crate) fn is_https(&self) -> bool {
        self.https.unwrap_or(false)
    }

    /// Whether the client and this server are one machine.
    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// Whether a page of this origin was served by us. A host without a port matches any: default proxies drop it, and
    /// browsers share cookies between the ports of a host in any case.
    pub(crate) fn matches(&self, origin: &Origin) -> bool {
        self.host == origin.host
            && self.port.is_none_or(|port| port == origin.port)
            && self.https.is_none_or(|https| https == origin.https)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", if self.is_https() { "https" } else { "http" }, self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Whether the host that the client wrote, in `Host` itself, is this machine.
pub(crate) fn host_is_loopback(headers: &HeaderMap) -> bool {
    text(headers, header::HOST.as_str()).and_then(split_authority).is_some_and(|(host, _)| is_loopback(&host))
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Host in lower case and port.
fn split_authority(text: &str) -> Option<(String, Option<u16>)> {
    let url = Url::parse(&format!("http://{}/", text.trim())).ok()?;
    if url.username() != "" || url.path() != "/" {
        return None;
    }
    // `Url` drops a port that is the scheme's own, and it was written all the same.
    let written = text.trim().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    Some((url.host_str()?.to_ascii_lowercase(), url.port().or(written)))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().filter(|value| !value.trim().is_empty())
}

/// The first of a list: that of the proxy nearest to the client.
fn first<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    text(headers, name)?.split(',').next().map(str::trim).filter(|value| !value.is_empty())
}

/// A parameter of one element of `Forwarded` (RFC 7239).
fn parameter(element: &str, name: &str) -> Option<String> {
    let value = element.split(';').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then_some(value.trim())
    })?;
    Some(value.trim_matches('"').to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(pairs: &[(&'static str, &'static str)]) -> Target {
        let headers = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Target::of(&headers).unwrap()
    }

    #[test]
    fn pages_of_ours_are_known_behind_any_proxy() {
        type Headers = [(&'static str, &'static str)];
        let cases: [(&Headers, &str, bool); 14] = [
            (&[("host", "127.0.0.1:2026")], "http://127.0.0.1:2026", true),
            (&[("host", "127.0.0.1:2026")], "http://127.0.0.1:3000", false),
            (&[("host", "127.0.0.1:2026")], "http://evil.example", false),
            (&[("host", "127.0.0.1:2026")], "http://127.0.0.1.evil.example:2026", false),
            // A proxy that drops the port, one that ends TLS without a word, one that says all.
            (&[("host", "localhost")], "http://localhost:2026", true),
            (&[("host", "app.example")], "https://app.example", true),
            (&[("host", "app.example")], "https://app.example.evil", false),
            (
                &[("host", "10.0.0.2:8001"), ("x-forwarded-host", "app.example"), ("x-forwarded-proto", "https")],
                "https://app.example",
                true,
            ),
            (
                &[("host", "10.0.0.2:8001"), ("x-forwarded-host", "app.example"), ("x-forwarded-proto", "https")],
                "http://app.example",
                false,
            ),
            (
                &[("host", "x"), ("x-forwarded-host", "app.example, inner"), ("x-forwarded-proto", "https, http")],
                "https://app.example",
                true,
            ),
            (
                &[("host", "x"), ("forwarded", "for=1.2.3.4;host=\"App.example:8443\";proto=https")],
                "https://app.example:8443",
                true,
            ),
            (
                &[("host", "x"), ("forwarded", "host=\"app.example:8443\";proto=https")],
                "https://app.example:8444",
                false,
            ),
            (&[("host", "[::1]:2026")], "http://[::1]:2026", true),
            (&[("host", "app.example:80")], "https://app.example:8080", false),
        ];
        for (headers, origin, expected) in cases {
            let (target, origin) = (target(headers), Origin::parse(origin).unwrap());
            assert_eq!(target.matches(&origin), expected, "{target} {origin}");
        }
        assert!(target(&[("host", "a"), ("x-forwarded-proto", "HTTPS")]).is_https());
        assert!(!target(&[("host", "a")]).is_https());
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (host, expected) in [
            ("localhost:2026", true),
            ("LOCALHOST", true),
            ("web.localhost", true),
            ("127.8.8.8", true),
            ("[::1]:2026", true),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("evil.example", false),
            ("0.0.0.0:2026", false),
            ("user@localhost", false),
            ("", false),
        ] {
            let headers = [(header::HOST, host.parse().unwrap())].into_iter().collect();
            assert_eq!(host_is_loopback(&headers), expected, "{host:?}");
        }
        for bad in ["null", "", "file:///x", "app.example", "javascript:1"] {
            assert_eq!(Origin::parse(bad), None, "{bad:?}");
        }
    }
}
