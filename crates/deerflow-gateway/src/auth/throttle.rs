//! How many requests one user or one address may make.

use super::attempts::network;
use deerflow_core::UserId;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Those who ask that are remembered.
const REMEMBERED: usize = 10_000;
const MINUTE: Duration = Duration::from_secs(60);

/// Who is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Asker {
    /// A user, wherever from.
    User(UserId),
    /// Nobody in particular, from there.
    Address(IpAddr),
}

impl Asker {
    /// Of nobody in particular.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Address(network(address))
    }
}

/// A token bucket each: a minute's requests at once, refilled evenly.
#[derive(Debug)]
pub(crate) struct Throttle {
    per_minute: u32,
    buckets: Mutex<HashMap<Asker, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Throttle {
    pub(crate) fn new(per_minute: u32) -> Self {
        Self { per_minute: per_minute.max(1), buckets: Mutex::default() }
    }

    /// Takes one request.
    ///
    /// # Errors
    /// How long to wait for the next, when there is none left.
    pub(crate) fn take(&self, asker: Asker, now: Instant) -> Result<(), Duration> {
        let most = f64::from(self.per_minute);
        let rate = most / MINUTE.as_secs_f64();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= REMEMBERED && !buckets.contains_key(&asker) {
            // After a minute every bucket is full again, and as good as none.
            buckets.retain(|_, bucket| now.duration_since(bucket.filled) < MINUTE);
            if buckets.len() >= REMEMBERED {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(asker).or_insert(Bucket { tokens: most, filled: now });
        bucket.tokens = (bucket.tokens + now.duration_since(bucket.filled).as_secs_f64() * rate).min(most);
        bucket.filled = now;
        if bucket.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.tokens) / rate));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_minutes_worth() {
        let (throttle, start) = (Throttle::new(60), Instant::now());
        let mine = || Asker::User(UserId::local());
        assert!((0..60).all(|_| throttle.take(mine(), start).is_ok()));
        assert_eq!(throttle.take(mine(), start), Err(Duration::from_secs(1)));
        assert!(throttle.take(Asker::at("10.0.0.1".parse().unwrap()), start).is_ok());
        let later = start + Duration::from_secs(2);
        assert!((0..2).all(|_| throttle.take(mine(), later).is_ok()));
        assert!(throttle.take(mine(), later).is_err());
    }
}
