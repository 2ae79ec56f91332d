//! What a command did on the network: for the log, and for who ran it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::destination::Destination;

/// Different destinations that are told by name.
const NAMED: usize = 16;

/// The use that a command made of the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkUse {
    /// Destinations that were not reached, in the order of their first time.
    pub trouble: Vec<NetworkTrouble>,
    /// Further times beyond those that are told by name.
    pub more_trouble: u64,
    /// Connections that reached their destination.
    pub connections: u64,
    /// Bytes sent to destinations.
    pub sent_bytes: u64,
    /// Bytes received from them.
    pub received_bytes: u64,
}

/// A destination that was not reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkTrouble {
    /// Host and port.
    pub destination: String,
    /// Why, without the name of the destination.
    pub reason: String,
    /// A rule refused it; otherwise it was allowed and could not be reached.
    pub refused: bool,
    /// How often.
    pub count: u64,
}

impl fmt::Display for NetworkTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.refused { "refused" } else { "not reached" };
        write!(f, "{} was {what}: {}", self.destination, self.reason)?;
        if self.count > 1 { write!(f, " ({} times)", self.count) } else { Ok(()) }
    }
}

/// Collects the use while a command runs.
#[derive(Debug)]
pub(crate) struct Ledger {
    thread: String,
    trouble: Mutex<(Vec<NetworkTrouble>, u64)>,
    connections: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Ledger {
    pub(crate) fn new(thread: &str) -> Self {
        let zero = || AtomicU64::new(0);
        let trouble = Mutex::default();
        Self { thread: thread.to_owned(), trouble, connections: zero(), sent: zero(), received: zero() }
    }

    pub(crate) fn reached(&self, to: &Destination) {
        tracing::info!(thread = %self.thread, destination = %to, "a command reached a destination");
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, to: &Destination, refused: bool, reason: &str) {
        tracing::info!(thread = %self.thread, destination = %to, refused, reason, "a command did not reach a destination");
        let destination = to.to_string();
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let (named, more) = &mut *trouble;
        let known = named.iter().position(|known| known.destination == destination && known.reason == reason);
        match known {
            Some(at) => named[at].count += 1,
            None if named.len() < NAMED => {
                named.push(NetworkTrouble { destination, reason: reason.to_owned(), refused, count: 1 });
            }
            None => *more += 1,
        }
    }

    pub(crate) fn sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> NetworkUse {
        let (trouble, more_trouble) = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        NetworkUse {
            trouble,
            more_trouble,
            connections: self.connections.load(Ordering::Relaxed),
            sent_bytes: self.sent.load(Ordering::Relaxed),
            received_bytes: self.received.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_of_many_destinations_is_counted_and_not_kept() {
        let ledger = Ledger::new("t");
        for round in 0..2 {
            for port in 1..=20 {
                ledger.failed(&Destination::parse("a.example", Some(port)).unwrap(), true, "no");
            }
            assert_eq!(ledger.total().more_trouble, (round + 1) * 4);
        }
        let total = ledger.total();
        assert_eq!(total.trouble.len(), NAMED);
        assert_eq!(total.trouble[0].to_string(), "a.example:1 was refused: no (2 times)");
        ledger.failed(&Destination::parse("a.example:1", None).unwrap(), false, "connection refused");
        assert_eq!(ledger.total().more_trouble, 9);
    }
}
