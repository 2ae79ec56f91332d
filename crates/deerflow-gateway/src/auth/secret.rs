//! The key that signs sessions.

use deerflow_config::Secret;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Name of its file in the home.
const FILE: &str = ".jwt_secret";
/// Fewer characters can be guessed.
const SHORTEST: usize = 32;

/// There is no key to sign with.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Its file cannot be made or read.
    #[error("cannot use the key for sessions {}: {source}; hint: check its owner and mode", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It can be guessed.
    #[error(
        "the key for sessions in {place} is shorter than {SHORTEST} characters; hint: make one with `openssl rand -hex 32`"
    )]
    Short {
        /// File or variable.
        place: String,
    },
}

/// The key from the environment, else from the file in the home, which is made (mode 0600) when there is none. Blocks.
pub(super) fn load(home: &Path, given: Option<String>) -> Result<Secret, SecretError> {
    if let Some(given) = given {
        return checked(&given, || "AUTH_JWT_SECRET".to_owned());
    }
    let path = home.join(FILE);
    let failed = |source| SecretError::File { path: path.clone(), source };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(home, &path).map_err(failed)?;
            fs::read_to_string(&path).map_err(failed)?
        }
        Err(error) => return Err(failed(error)),
    };
    tighten(&path).map_err(failed)?;
    checked(&text, || path.display().to_string())
}

fn checked(text: &str, place: impl FnOnce() -> String) -> Result<Secret, SecretError> {
    match text.trim() {
        key if key.len() < SHORTEST => Err(SecretError::Short { place: place() }),
        key => Ok(key.into()),
    }
}

/// Of several processes that start at once, one makes the file and all read it.
fn make(home: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    let draft = home.join(format!("{FILE}.{}", uuid::Uuid::new_v4()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| file.write_all(super::random_text(48).as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::hard_link(&draft, path));
    // A draft that stays behind is a nuisance, no danger.
    let _ = fs::remove_file(&draft);
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// A copied or restored file may have come with another mode.
fn tighten(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    tracing::warn!(path = %path.display(), "others could read the key for sessions; its mode is 0600 now");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_for_the_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().join("new");
        let racing: Vec<Secret> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| load(&home, None).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(racing.iter().all(|key| *key == racing[0]));
        assert!(racing[0].expose().len() >= SHORTEST);
        let path = home.join(FILE);
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        assert_eq!(fs::read_dir(&home).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(load(&home, None).unwrap(), racing[0]);
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn a_short_key_is_refused() {
        let home = tempfile::tempdir().unwrap();
        assert!(matches!(load(home.path(), Some("x".repeat(31))), Err(SecretError::Short { .. })));
        assert_eq!(load(home.path(), Some("x".repeat(32))).unwrap().expose(), "x".repeat(32));
        fs::write(home.path().join(FILE), "short").unwrap();
        let error = load(home.path(), None).unwrap_err().to_string();
        assert!(error.contains(FILE) && error.contains("openssl") && !error.contains("\"short\""), "{error}");
    }
}
