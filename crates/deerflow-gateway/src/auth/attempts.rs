//! Slows down whoever guesses passwords.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong passwords of one address before it has to wait.
const FAILURES: u32 = 5;
/// How long it waits after the last of them.
const WAIT: Duration = Duration::from_secs(300);
/// Addresses that are remembered.
const ADDRESSES: usize = 10_000;

/// Failed logins by address, of this process.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<IpAddr, Tries>>);

#[derive(Debug, Clone, Copy)]
struct Tries {
    count: u32,
    last: Instant,
}

impl Attempts {
    /// Whether an address may try a password now. The attempt counts as failed until [`Self::succeeded`], so that many at
    /// once are no way around.
    pub(crate) fn begin(&self, address: IpAddr, now: Instant) -> bool {
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |tries: &Tries| now.duration_since(tries.last) >= WAIT;
        let address = network(address);
        if !tries.contains_key(&address) && tries.len() >= ADDRESSES {
            tries.retain(|_, tries| !is_old(tries));
            // Still full: whoever was there longest is forgotten.
            if tries.len() >= ADDRESSES
                && let Some(oldest) = tries.iter().min_by_key(|(_, tries)| tries.last).map(|(address, _)| *address)
            {
                tries.remove(&oldest);
            }
        }
        let mine = tries.entry(address).or_insert(Tries { count: 0, last: now });
        if is_old(mine) {
            mine.count = 0;
        }
        if mine.count >= FAILURES {
            return false;
        }
        *mine = Tries { count: mine.count + 1, last: now };
        true
    }

    /// The password was right.
    pub(crate) fn succeeded(&self, address: IpAddr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&network(address));
    }
}

/// One household has a whole /64 of IPv6 addresses.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        four => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_wrong_ones_are_enough() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        let (guesser, other): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!((0..5).all(|second| attempts.begin(guesser, at(second))));
        assert!(!attempts.begin(guesser, at(5)));
        assert!(attempts.begin(other, at(5)));
        // Trying on does not prolong the wait, and it ends.
        assert!(!attempts.begin(guesser, at(303)));
        assert!(attempts.begin(guesser, at(304)));
        // A success is a new start.
        assert!((0..4).all(|_| attempts.begin(other, at(6))));
        attempts.succeeded(other);
        assert!((0..5).all(|_| attempts.begin(other, at(7))));
        assert!(!attempts.begin(other, at(8)));
    }

    #[test]
    fn a_network_counts_as_one_and_memory_is_bounded() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let guesses = (0..20u128).filter(|n| attempts.begin(IpAddr::V6(Ipv6Addr::from_bits((0x2001 << 112) | n)), now));
        assert_eq!(guesses.count(), 5);
        for n in 0..ADDRESSES as u32 + 100 {
            assert!(attempts.begin(IpAddr::V4(n.into()), now));
        }
        assert_eq!(attempts.0.lock().unwrap().len(), ADDRESSES);
    }
}
