//! The network of the server, as the proxy uses it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use tokio::net::TcpStream;

/// Names, addresses and connections of the server's network. Tests have their own.
#[async_trait]
pub(crate) trait Outside: Send + Sync {
    /// All addresses of a name, best first.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// True for an address of one of this machine's interfaces: behind a public one may be what listens for the neighbours.
    async fn is_own(&self, address: IpAddr) -> io::Result<bool>;

    /// Connects to just this address.
    async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream>;
}

/// The real network.
pub(crate) struct System;

#[async_trait]
impl Outside for System {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        // The system's resolver, on a thread for what blocks.
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip().to_canonical()).collect())
    }

    async fn is_own(&self, address: IpAddr) -> io::Result<bool> {
        let look = move || {
            let interfaces = nix::ifaddrs::getifaddrs()?;
            Ok(interfaces.filter_map(|interface| interface.address).any(|own| {
                let v4 = own.as_sockaddr_in().map(|own| IpAddr::from(own.ip()));
                let v6 = own.as_sockaddr_in6().map(|own| IpAddr::from(own.ip()));
                v4.or(v6) == Some(address)
            }))
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(to).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn loopback_is_an_address_of_this_machine_and_others_are_not() {
        assert!(System.is_own("127.0.0.1".parse().unwrap()).await.unwrap());
        assert!(!System.is_own("192.0.2.77".parse().unwrap()).await.unwrap());
        assert!(System.resolve("localhost").await.unwrap().iter().all(IpAddr::is_loopback));
    }
}
