//! The list of what commands may reach.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::address::{Special, special};
use super::destination::{Destination, Host, parse_port, split};

/// The ports of a pattern that names none.
const WEB: [u16; 2] = [80, 443];

/// The patterns of `sandbox.network.allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowList(Vec<Pattern>);

/// Hosts and ports that may be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    hosts: Hosts,
    /// `None`: those of the web.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    /// `*`: every public one.
    Any,
    /// `*.suffix`: the names beneath, not the name itself. With the leading dot.
    Beneath(String),
    One(Host),
}

/// What a destination is allowed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    /// The list has this address, written out: it may be private.
    Explicit(IpAddr),
    /// The host, as long as its addresses are public.
    Public,
}

/// Why a destination is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denied {
    /// No pattern has the host.
    Host,
    /// The host is there, for these ports only.
    Port(Vec<u16>),
}

/// A pattern that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadPattern {
    /// Its place in the list.
    pub(crate) index: usize,
    /// What is wrong.
    pub(crate) problem: String,
    /// The nearest form that is right.
    pub(crate) help: String,
}

impl AllowList {
    /// Reads a list; all that is wrong with it otherwise.
    pub(crate) fn parse(patterns: &[String]) -> Result<Self, Vec<BadPattern>> {
        let mut good = Vec::new();
        let mut bad = Vec::new();
        for (index, text) in patterns.iter().enumerate() {
            match Pattern::parse(text) {
                Ok(pattern) => good.push(pattern),
                Err((problem, help)) => bad.push(BadPattern { index, problem, help }),
            }
        }
        if bad.is_empty() { Ok(Self(good)) } else { Err(bad) }
    }

    /// What a destination is allowed as.
    pub(crate) fn permission(&self, to: &Destination) -> Result<Permission, Denied> {
        let mut ports = Vec::new();
        let mut public = false;
        for pattern in self.0.iter().filter(|pattern| pattern.hosts.has(&to.host)) {
            if !pattern.ports().contains(&to.port) {
                ports.extend_from_slice(pattern.ports());
                continue;
            }
            if let Hosts::One(Host::Address(address)) = pattern.hosts {
                return Ok(Permission::Explicit(address));
            }
            public = true;
        }
        ports.sort_unstable();
        ports.dedup();
        match (public, ports.is_empty()) {
            (true, _) => Ok(Permission::Public),
            (false, false) => Err(Denied::Port(ports)),
            (false, true) => Err(Denied::Host),
        }
    }

    /// The patterns as texts, in their one form.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.iter().map(Pattern::to_string).collect()
    }

    /// True if an address of the server's own loopback is in the list.
    pub(crate) fn has_loopback(&self) -> bool {
        self.0.iter().any(
            |pattern| matches!(pattern.hosts, Hosts::One(Host::Address(a)) if special(a) == Some(Special::Loopback)),
        )
    }
}

impl Hosts {
    fn has(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Beneath(suffix), Host::Name(name)) => name.len() > suffix.len() && name.ends_with(suffix.as_str()),
            (Self::Beneath(_), Host::Address(_)) => false,
            (Self::One(one), host) => one == host,
        }
    }
}

impl Pattern {
    fn ports(&self) -> &[u16] {
        self.port.as_ref().map_or(&WEB, std::slice::from_ref)
    }

    /// Reads a pattern; what is wrong and what would be right otherwise.
    fn parse(text: &str) -> Result<Self, (String, String)> {
        let text = text.trim();
        let fail = |problem: &str, help: String| Err((format!("`{text}` {problem}"), help));
        if text.is_empty() {
            return Err(("a pattern is empty".to_owned(), EXAMPLES.to_owned()));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let port = if scheme.eq_ignore_ascii_case("http") { 80 } else { 443 };
            let nearest = match split(authority) {
                Ok((host, None)) if !host.is_empty() => format!("{host}:{port}"),
                _ => authority.to_owned(),
            };
            return fail("is an address of a page; only its host and port count", write(&nearest));
        }
        if let Some((host, rest)) = text.split_once('/') {
            return if rest.parse::<u8>().is_ok_and(|bits| bits <= 128) && Host::parse(host.trim()).is_ok() {
                fail("is a range of addresses", write(&format!("each address with its port, like {host}:8080")))
            } else {
                fail("has a path; only a host and port count", write(host))
            };
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return fail("is an IPv6 address without brackets", write(&format!("[{address}]:443")));
        }
        let (host, port) = match split(text) {
            Ok((host, None)) => (host, None),
            Ok((host, Some(port))) => match parse_port(port) {
                Ok(port) => (host, Some(port)),
                Err(problem) => return fail(&format!("is no pattern: {problem}"), write(&format!("{host}:443"))),
            },
            Err(problem) => return fail(&format!("is no pattern: {problem}"), EXAMPLES.to_owned()),
        };
        let hosts = if host == "*" {
            Hosts::Any
        } else if let Some(suffix) = host.strip_prefix("*.") {
            match Host::parse(suffix) {
                Ok(Host::Name(name)) => Hosts::Beneath(format!(".{name}")),
                Ok(Host::Address(_)) => return fail("has a `*` in an address", EXAMPLES.to_owned()),
                Err(problem) => return fail(&format!("is no pattern: {problem}"), EXAMPLES.to_owned()),
            }
        } else if host.contains('*') || host.starts_with('.') {
            let name = host.trim_start_matches(['*', '.']);
            let known = !name.contains('*') && Host::parse(name).is_ok();
            let help = if known { write(&format!("*.{name}")) } else { EXAMPLES.to_owned() };
            return fail("is no pattern: a `*` stands alone or for the whole start of a name", help);
        } else {
            match Host::parse(host) {
                Ok(host) => Hosts::One(host),
                Err(problem) => return fail(&format!("is no pattern: {problem}"), EXAMPLES.to_owned()),
            }
        };
        match &hosts {
            Hosts::One(Host::Name(name)) if name == "localhost" => {
                let port = port.map_or_else(|| "8080".to_owned(), |port| port.to_string());
                fail("is a name, and a name never stands for this machine", write(&format!("127.0.0.1:{port}")))
            }
            Hosts::One(Host::Name(name)) if !name.contains('.') => {
                let port = port.map_or_else(|| "8080".to_owned(), |port| port.to_string());
                let help = write(&format!("its address and port, like 10.0.0.5:{port}"));
                fail("is a name of a private network, and a name never stands for a private address", help)
            }
            Hosts::One(Host::Address(address)) => match (special(*address), port) {
                (Some(Special::Metadata), _) => {
                    let help = "leave it out: it gives the credentials of this machine to whoever asks".to_owned();
                    fail("is a cloud's metadata service, which commands never reach", help)
                }
                (Some(Special::Unspecified), port) => {
                    let port = port.unwrap_or(8080);
                    fail("is an address of no machine", write(&format!("127.0.0.1:{port}")))
                }
                (Some(Special::Multicast), _) => {
                    fail("is a multicast address, to which nothing can connect", EXAMPLES.to_owned())
                }
                (Some(kind), None) => {
                    let host = Host::Address(*address);
                    fail(&format!("is {kind}, which needs its port"), write(&format!("{host}:8080")))
                }
                (Some(_) | None, port) => Ok(Self { hosts, port }),
            },
            Hosts::Any | Hosts::Beneath(_) | Hosts::One(Host::Name(_)) => Ok(Self { hosts, port }),
        }
    }
}

const EXAMPLES: &str = "a pattern is a host, with its port if that is not 80 or 443: `pypi.org`, `*.pythonhosted.org:443`, \
    `10.0.0.5:8080`";

fn write(pattern: &str) -> String {
    if pattern.contains(' ') { format!("write {pattern}") } else { format!("write `{pattern}`") }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Any => f.write_str("*")?,
            Hosts::Beneath(suffix) => write!(f, "*{suffix}")?,
            Hosts::One(host) => host.fmt(f)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn list(patterns: &[&str]) -> AllowList {
        let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
        AllowList::parse(&patterns).unwrap()
    }

    fn ask(list: &AllowList, to: &str) -> Result<Permission, Denied> {
        list.permission(&Destination::parse(to, None).unwrap())
    }

    #[test]
    fn names_match_exactly_or_beneath_a_suffix_and_only_for_their_ports() {
        let list = list(&["PyPI.org", "*.PythonHosted.org:443", "bücher.example:8443", "pypi.org:8080"]);
        for yes in [
            "pypi.org:80",
            "PYPI.ORG.:443",
            "pypi.org:8080",
            "files.pythonhosted.org:443",
            "a.b.pythonhosted.org:443",
            "xn--bcher-kva.example:8443",
        ] {
            assert_eq!(ask(&list, yes), Ok(Permission::Public), "{yes}");
        }
        for no in [
            "pythonhosted.org:443",
            "evilpythonhosted.org:443",
            "pypi.org.evil.example:443",
            "8.8.8.8:443",
            "www.pypi.org:80",
        ] {
            assert_eq!(ask(&list, no), Err(Denied::Host), "{no}");
        }
        assert_eq!(ask(&list, "pypi.org:22"), Err(Denied::Port(vec![80, 443, 8080])));
        assert_eq!(ask(&list, "files.pythonhosted.org:80"), Err(Denied::Port(vec![443])));
    }

    #[test]
    fn an_address_that_is_written_out_is_allowed_as_it_is_and_no_other() {
        let list = list(&["10.0.0.5:8080", "[fd00::1]:80", "*", "127.0.0.1:9000"]);
        assert_eq!(ask(&list, "10.0.0.5:8080"), Ok(Permission::Explicit("10.0.0.5".parse().unwrap())));
        assert_eq!(ask(&list, "[::ffff:10.0.0.5]:8080"), Ok(Permission::Explicit("10.0.0.5".parse().unwrap())));
        assert_eq!(ask(&list, "[fd00::1]:80"), Ok(Permission::Explicit("fd00::1".parse().unwrap())));
        // `*` has them as well, for the ports of the web, but only where they are public: they are not.
        assert_eq!(ask(&list, "10.0.0.5:80"), Ok(Permission::Public));
        assert_eq!(ask(&list, "10.0.0.6:8080"), Err(Denied::Port(vec![80, 443])));
        assert!(list.has_loopback());
    }

    #[test]
    fn what_is_wrong_is_told_with_the_nearest_form_that_is_right() {
        for (text, problem, help) in [
            ("", "a pattern is empty", "`pypi.org`"),
            ("https://pypi.org/simple", "is an address of a page", "write `pypi.org:443`"),
            ("http://pypi.org", "is an address of a page", "write `pypi.org:80`"),
            ("https://pypi.org:8443/", "is an address of a page", "write `pypi.org:8443`"),
            ("pypi.org/simple", "has a path", "write `pypi.org`"),
            ("10.0.0.0/8", "is a range of addresses", "each address with its port"),
            ("fd00::1", "IPv6 address without brackets", "write `[fd00::1]:443`"),
            ("pypi.org:0", "a number from 1 to 65535", "write `pypi.org:443`"),
            ("pypi.org:https", "a number from 1 to 65535", "write `pypi.org:443`"),
            (".pypi.org", "a `*` stands alone", "write `*.pypi.org`"),
            ("*pypi.org", "a `*` stands alone", "write `*.pypi.org`"),
            ("py*.org", "a `*` stands alone", "`*.pythonhosted.org:443`"),
            ("*.10.0.0.1", "has a `*` in an address", "10.0.0.5:8080"),
            ("a b.org", "not a host name", "`pypi.org`"),
            ("localhost:3000", "a name never stands for this machine", "write `127.0.0.1:3000`"),
            ("intranet", "a name never stands for a private address", "like 10.0.0.5:8080"),
            ("10.0.0.5", "is a private address, which needs its port", "write `10.0.0.5:8080`"),
            ("[::1]", "is a loopback address, which needs its port", "write `[::1]:8080`"),
            ("127.1", "is a loopback address, which needs its port", "write `127.0.0.1:8080`"),
            ("169.254.169.254:80", "metadata service", "leave it out"),
            ("[::ffff:169.254.169.254]:80", "metadata service", "leave it out"),
            ("0.0.0.0:80", "is an address of no machine", "write `127.0.0.1:80`"),
            ("224.0.0.1:80", "multicast", "pypi.org"),
        ] {
            let (was, hint) = Pattern::parse(text).unwrap_err();
            assert!(was.contains(problem), "{text}: {was}");
            assert!(hint.contains(help), "{text}: {hint}");
        }
        let bad = AllowList::parse(&["pypi.org".into(), "a/b".into(), String::new()]).unwrap_err();
        assert_eq!(bad.iter().map(|bad| bad.index).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_pattern_is_shown_in_its_one_form() {
        let list = list(&[" PyPI.org. ", "*.B.org:1", "*", "[::FFFF:10.0.0.5]:80", "[FD00::1]:8080", "8.8.8.8"]);
        assert_eq!(list.texts(), ["pypi.org", "*.b.org:1", "*", "10.0.0.5:80", "[fd00::1]:8080", "8.8.8.8"]);
        assert!(!list.has_loopback());
    }

    proptest! {
        #[test]
        fn no_text_from_outside_panics_and_each_pattern_is_stable(text in "\\PC{0,40}") {
            if let Ok(pattern) = Pattern::parse(&text) {
                prop_assert_eq!(Pattern::parse(&pattern.to_string()).unwrap(), pattern);
            }
        }

        #[test]
        fn a_name_is_never_explicit(
            patterns in proptest::collection::vec("(\\*|(\\*\\.)?[a-z]{1,3}\\.[a-z]{2}|10\\.0\\.0\\.[0-9]:80)(:443)?", 0..6),
            name in "[a-z]{1,3}(\\.[a-z]{1,3}){1,2}",
            port in prop_oneof![Just(80_u16), Just(443), any::<u16>()],
        ) {
            let patterns: Vec<String> = patterns.into_iter().filter(|text| Pattern::parse(text).is_ok()).collect();
            let list = AllowList::parse(&patterns).unwrap();
            let to = Destination { host: Host::parse(&name).unwrap(), port };
            prop_assert!(!matches!(list.permission(&to), Ok(Permission::Explicit(_))));
        }
    }
}
