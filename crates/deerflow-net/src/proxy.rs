//! Proxies from the environment, without ever sending loopback traffic through one.

use crate::ClientError;
use std::net::IpAddr;

/// Proxies by scheme, as the usual environment variables give them.
#[derive(Debug, Clone, Default)]
pub struct ProxyRules {
    http: Option<(String, String)>,
    https: Option<(String, String)>,
    all: Option<(String, String)>,
    no_proxy: String,
}

/// Always reached directly: a proxy could not reach our loopback, and must not see what is sent there.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

impl ProxyRules {
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in upper or lower case.
    #[must_use]
    pub fn from_env() -> Self {
        Self::from_lookup(&|name| std::env::var(name).ok())
    }
    /// The same from any source of variables.
    #[must_use]
    pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<String>) -> Self {
        let find = |lower: &str| {
            [lower.to_owned(), lower.to_uppercase()]
                .into_iter()
                .find_map(|name| Some((name.clone(), lookup(&name).filter(|value| !value.trim().is_empty())?)))
        };
        // Under CGI, `HTTP_PROXY` is a request header that a stranger chose.
        let cgi = lookup("REQUEST_METHOD").is_some();
        let own = find("no_proxy").map(|(_, list)| list).unwrap_or_default();
        Self {
            http: find("http_proxy").filter(|(name, _)| !(cgi && name == "HTTP_PROXY")),
            https: find("https_proxy"),
            all: find("all_proxy"),
            no_proxy: if own.is_empty() { LOOPBACK.to_owned() } else { format!("{own},{LOOPBACK}") },
        }
    }
    /// No proxy at all.
    #[must_use]
    pub fn direct() -> Self {
        Self::default()
    }

    pub(crate) fn apply(&self, mut builder: reqwest::ClientBuilder) -> Result<reqwest::ClientBuilder, ClientError> {
        type Make = fn(&str) -> Result<reqwest::Proxy, reqwest::Error>;
        // Our list replaces reqwest's own reading of the environment, which does not exempt loopback.
        builder = builder.no_proxy();
        let kinds: [(&Option<(String, String)>, Make); 3] = [
            (&self.http, |url| reqwest::Proxy::http(url)),
            (&self.https, |url| reqwest::Proxy::https(url)),
            (&self.all, |url| reqwest::Proxy::all(url)),
        ];
        for (rule, make) in kinds {
            let Some((variable, url)) = rule else { continue };
            let proxy = make(url.trim()).map_err(|error| ClientError::Proxy {
                variable: variable.clone(),
                reason: error.without_url().to_string(),
            })?;
            builder = builder.proxy(proxy.no_proxy(reqwest::NoProxy::from_string(&self.no_proxy)));
        }
        Ok(builder)
    }
}

/// Whether a host name or address (without port) is this machine.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_unspecified(),
        Ok(IpAddr::V6(address)) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
        Err(_) => {
            let host = host.trim_end_matches('.').to_ascii_lowercase();
            host == "localhost" || host.ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_many_names() {
        for yes in
            ["localhost", "LOCALHOST.", "a.localhost", "127.8.9.1", "::1", "[::1]", "::ffff:127.0.0.1", "0.0.0.0"]
        {
            assert!(is_loopback(yes), "{yes}");
        }
        for no in ["localhost.example.com", "128.0.0.1", "example.com", "", "::2"] {
            assert!(!is_loopback(no), "{no}");
        }
    }

    #[test]
    fn a_bad_proxy_is_named_by_its_variable_without_its_password() {
        let rules =
            ProxyRules::from_lookup(&|name| (name == "HTTPS_PROXY").then(|| "http://user:hunter2@[bad".to_owned()));
        let options = crate::HttpOptions { proxy: rules, ..crate::HttpOptions::default() };
        let text = crate::http_client(&options).unwrap_err().to_string();
        assert!(text.starts_with("HTTPS_PROXY is not a usable proxy address"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn loopback_joins_the_users_own_exemptions() {
        let rules = ProxyRules::from_lookup(&|name| (name == "NO_PROXY").then(|| "corp.example".to_owned()));
        assert_eq!(rules.no_proxy, "corp.example,localhost,127.0.0.0/8,::1");
        assert!(rules.http.is_none());
    }

    #[test]
    fn a_cgi_request_header_is_not_a_proxy() {
        let lookup = |name: &str| matches!(name, "HTTP_PROXY" | "REQUEST_METHOD").then(|| "http://evil".to_owned());
        assert!(ProxyRules::from_lookup(&lookup).http.is_none());
    }
}
