//! Passwords: which are good enough, and how they are kept.

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deerflow_config::Secret;
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

/// Fewest characters.
pub(super) const SHORTEST_PASSWORD: usize = 8;
/// Most bytes: a longer one would only cost time.
pub(super) const LONGEST_PASSWORD: usize = 1024;
/// Marks bcrypt over base64 of SHA-256, as the original keeps passwords.
const ORIGINAL: &str = "$dfv2$";
/// Hashes that are computed at once. Each takes 19 MiB, and a processor for some 20 ms.
const AT_ONCE: usize = 2;

/// A password is not good enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeakPassword {
    /// Too short.
    #[error("Password must be at least {SHORTEST_PASSWORD} characters long")]
    Short,
    /// Too long.
    #[error("Password must be at most {LONGEST_PASSWORD} bytes long")]
    Long,
    /// Everybody tries it first.
    #[error("Password is too common; please choose a stronger password")]
    Common,
}

/// A hash could not be computed.
#[derive(Debug, thiserror::Error)]
#[error("cannot hash the password: {0}")]
pub struct HashError(String);

/// Whether a password may be chosen.
///
/// # Errors
/// [`WeakPassword`].
pub fn check_password(password: &str) -> Result<(), WeakPassword> {
    static COMMON: OnceLock<HashSet<&'static str>> = OnceLock::new();
    if password.chars().count() < SHORTEST_PASSWORD {
        return Err(WeakPassword::Short);
    }
    if password.len() > LONGEST_PASSWORD {
        return Err(WeakPassword::Long);
    }
    let common = COMMON.get_or_init(|| include_str!("common_passwords.txt").lines().collect());
    if common.contains(password.to_lowercase().as_str()) { Err(WeakPassword::Common) } else { Ok(()) }
}

/// A password that nobody guesses: 120 random bits.
#[must_use]
pub fn random_password() -> Secret {
    super::random_text(15).into()
}

/// Hashes and checks passwords, a few at a time and off the reactor.
#[derive(Clone)]
pub struct Passwords(Arc<Semaphore>);

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Wrong,
    /// Right, and kept as we keep them.
    Right,
    /// Right, and kept in an older way: hash it again.
    Outdated,
}

impl Default for Passwords {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Passwords {
    /// The hash to keep: argon2id with a random salt, as a PHC string.
    ///
    /// # Errors
    /// When there is no memory or no randomness.
    pub async fn hash(&self, password: &Secret) -> Result<String, HashError> {
        let password = password.clone();
        self.work(move || {
            let hash = Argon2::default().hash_password(password.expose().as_bytes());
            hash.map(|hash| hash.to_string()).map_err(|error| HashError(error.to_string()))
        })
        .await?
    }

    /// Checks a password. Without a hash it takes as long and is wrong, so that the time tells nobody which accounts exist.
    pub(crate) async fn verify(&self, password: &Secret, hash: Option<String>) -> Result<Verdict, HashError> {
        if password.expose().len() > LONGEST_PASSWORD {
            return Ok(Verdict::Wrong);
        }
        let password = password.clone();
        self.work(move || match hash {
            Some(hash) => verify(password.expose(), &hash),
            None => {
                let _ = Argon2::default().hash_password(password.expose().as_bytes());
                Verdict::Wrong
            }
        })
        .await
    }

    async fn work<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, HashError> {
        let _turn = self.0.acquire().await.map_err(|error| HashError(error.to_string()))?;
        tokio::task::spawn_blocking(job).await.map_err(|error| HashError(error.to_string()))
    }
}

fn verify(password: &str, hash: &str) -> Verdict {
    let bcrypt = |text: &[u8], hash: &str| {
        if bcrypt::verify(text, hash).unwrap_or(false) { Verdict::Outdated } else { Verdict::Wrong }
    };
    if let Some(hash) = hash.strip_prefix(ORIGINAL) {
        return bcrypt(STANDARD.encode(Sha256::digest(password.as_bytes())).as_bytes(), hash);
    }
    if hash.starts_with("$2") {
        return bcrypt(password.as_bytes(), hash);
    }
    let Ok(hash) = PasswordHash::new(hash) else { return Verdict::Wrong };
    match Argon2::default().verify_password(password.as_bytes(), &hash) {
        Ok(()) => Verdict::Right,
        Err(_) => Verdict::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn passwords_are_kept_by_argon2id_and_older_ways_are_known() {
        let passwords = Passwords::default();
        let word: Secret = "correct horse".into();
        let verify =
            async |password: &str, hash: &str| passwords.verify(&password.into(), Some(hash.to_owned())).await.unwrap();
        let hash = passwords.hash(&word).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, passwords.hash(&word).await.unwrap());
        assert_eq!(verify("correct horse", &hash).await, Verdict::Right);
        assert_eq!(verify("correct horsf", &hash).await, Verdict::Wrong);

        let inner = STANDARD.encode(Sha256::digest("correct horse"));
        let original = format!("$dfv2${}", bcrypt::hash(inner, 4).unwrap());
        assert_eq!(verify("correct horse", &original).await, Verdict::Outdated);
        assert_eq!(verify("correct hors", &original).await, Verdict::Wrong);
        let oldest = bcrypt::hash("correct horse", 4).unwrap();
        assert_eq!(verify("correct horse", &oldest).await, Verdict::Outdated);
        for damaged in ["", "$dfv2$", "$2b$", "$argon2id$", "correct horse"] {
            assert_eq!(verify("correct horse", damaged).await, Verdict::Wrong, "{damaged}");
        }
        assert_eq!(passwords.verify(&word, None).await.unwrap(), Verdict::Wrong);
    }

    #[test]
    fn weak_ones_are_refused() {
        assert_eq!(check_password("1234567"), Err(WeakPassword::Short));
        assert_eq!(check_password(&"x".repeat(LONGEST_PASSWORD + 1)), Err(WeakPassword::Long));
        for common in ["password", "PassWord1", "12345678", "Qwertyuiop", "letmein123"] {
            assert_eq!(check_password(common), Err(WeakPassword::Common), "{common}");
        }
        assert_eq!(check_password("ünïcödé!"), Ok(()));
        // One that is too short anyway, or in another case, would never be found.
        for line in include_str!("common_passwords.txt").lines() {
            assert!(
                line.chars().count() >= SHORTEST_PASSWORD && line == line.to_lowercase() && line.trim() == line,
                "{line:?}"
            );
        }
    }
}
