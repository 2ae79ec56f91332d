//! Where a request comes from.

use super::settings::Settings;
use crate::app::AppState;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The client's address: the peer's, or what a trusted proxy says in `X-Real-IP`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl ClientAddress {
    /// From the connection and the headers.
    pub(super) fn of(settings: &Settings, peer: Option<IpAddr>, headers: &HeaderMap) -> Self {
        // Without a connection, in a test of a router say, all share one address.
        let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)).to_canonical();
        let trusted = settings.trusted_proxies.iter().any(|network| network.contains(&peer));
        let told =
            headers.get("x-real-ip").filter(|_| trusted).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        Self(told.unwrap_or(peer))
    }
}

/// The address of the peer.
pub(super) fn peer(parts: &axum::http::Extensions) -> Option<IpAddr> {
    parts.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
}

impl FromRequestParts<AppState> for ClientAddress {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Infallible> {
        Ok(Self::of(&app.auth.settings, peer(&parts.extensions), &parts.headers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::config::AuthConfig;
    use crate::auth::settings::Environment;

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        let section = AuthConfig { trusted_proxies: vec!["10.0.0.0/8".into(), "::1".into()], ..AuthConfig::default() };
        let settings = Settings::new(&section, &Environment::default()).unwrap();
        let headers = [("x-real-ip".parse().unwrap(), "1.2.3.4".parse().unwrap())].into_iter().collect();
        let of = |peer: &str| ClientAddress::of(&settings, Some(peer.parse().unwrap()), &headers).0.to_string();
        assert_eq!(of("10.1.2.3"), "1.2.3.4");
        assert_eq!(of("::ffff:10.1.2.3"), "1.2.3.4");
        assert_eq!(of("11.1.2.3"), "11.1.2.3");
    }
}
