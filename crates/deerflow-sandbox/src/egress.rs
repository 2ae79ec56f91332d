//! The way out of the isolated computer: a proxy that reaches what the configuration allows, and nothing else.
//!
//! A sandbox has a network namespace of its own with nothing but loopback in it. What may leave goes through an HTTP proxy in
//! the server's process, one for each command, over sockets that were made inside:
//!
//! - The first process in the sandbox makes a listening socket on 127.0.0.1 there, before it gives up what it has, and hands
//!   it to the server over the socket that the two already share. A socket keeps the network it was made in, so the server
//!   accepts in the sandbox's network and connects in its own. This needs no forwarding process inside (which would be in the
//!   command's reach, and would have to be there in every image), no path in the file system, and no privilege on either side.
//! - Because the listening socket is the only way in and belongs to one command, no other command, thread or process of the
//!   host can use the proxy, and nobody has to authenticate.
//! - The proxy resolves names itself and connects to the very address that it has checked.
//!
//! [`inside`] runs in the sandbox, [`receive`] and [`proxy`] in the server; [`allow`] and [`address`] are the rules.

pub(crate) mod address;
pub(crate) mod allow;
mod config;
mod destination;
mod head;
pub(crate) mod inside;
mod outside;
mod proxy;
mod receive;
mod relay;
mod report;

use std::sync::Arc;
use std::time::Duration;

pub use address::is_public_address;
pub use config::{NetworkAccess, NetworkConfig};
pub use report::{NetworkTrouble, NetworkUse};

pub(crate) use proxy::Proxy;
pub(crate) use receive::receive;

use crate::SandboxError;
use allow::AllowList;
use outside::{Outside, System};

/// What the proxies of a provider have in common.
pub(crate) struct Egress {
    allow: AllowList,
    outside: Arc<dyn Outside>,
    limits: ProxyLimits,
}

impl Egress {
    /// The rules of the configuration; `None` where the network is off.
    ///
    /// # Errors
    /// [`SandboxError::Config`] for a pattern that is none.
    pub(crate) fn new(config: &NetworkConfig) -> Result<Option<Arc<Self>>, SandboxError> {
        let Some(allow) = config.allow_list()? else { return Ok(None) };
        Ok(Some(Arc::new(Self { allow, outside: Arc::new(System), limits: ProxyLimits::default() })))
    }
}

/// Limits of a proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProxyLimits {
    /// To resolve a name, and then to connect to what it resolved to.
    connect: Duration,
    /// Without a byte in either direction.
    idle: Duration,
    /// For the head of a request.
    head: Duration,
    /// Bytes of a head.
    head_bytes: usize,
    /// Connections at once; more wait in the kernel's queue.
    connections: usize,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(5 * 60),
            head: Duration::from_secs(10),
            head_bytes: 16 * 1024,
            connections: 64,
        }
    }
}

#[cfg(test)]
mod tests;
