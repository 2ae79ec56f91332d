//! The secret that placeholders are derived with.

use deerflow_core::ThreadId;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// File of the installation's key, in the data folder.
const FILE: &str = ".pii-redaction-key";
/// Names what the derived keys are for, so that one secret can serve several purposes.
const CONTEXT: &str = "deerflow 2026-12 pii redaction placeholders";

/// Key of the hash in placeholders. Without it a placeholder cannot be led back to its value, not even by trying all phone
/// numbers there are.
#[derive(Clone, Copy)]
pub struct RedactionKey([u8; 32]);

impl std::fmt::Debug for RedactionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedactionKey(..)")
    }
}

impl RedactionKey {
    /// The key of a configured secret: the same on every machine that has it.
    #[must_use]
    pub fn from_secret(secret: &str) -> Self {
        Self(blake3::derive_key(CONTEXT, secret.as_bytes()))
    }

    /// A key for this process only.
    #[must_use]
    pub fn random() -> Self {
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        seed[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        Self(blake3::derive_key(CONTEXT, &seed))
    }

    /// The installation's key in the data folder `home`; made at the first call, readable by its owner only. Of several
    /// processes that make it at once, all get the same.
    ///
    /// # Errors
    /// The file cannot be read or made, or holds something else.
    pub fn of_installation(home: &Path) -> io::Result<Self> {
        let file = home.join(FILE);
        match Self::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        fs::create_dir_all(home)?;
        let key = Self::random();
        let fresh = home.join(format!("{FILE}.{}", uuid::Uuid::new_v4()));
        let written = write_private(&fresh, &key.0).and_then(|()| {
            // A link, unlike a rename, leaves a key alone that another process made meanwhile.
            match fs::hard_link(&fresh, &file) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(()),
            }
        });
        // Nothing depends on the removal: a left-over is one stray file that nobody reads.
        let _ = fs::remove_file(&fresh);
        written?;
        Self::read(&file)
    }

    /// The key of one thread. A person has another placeholder in every thread, so that nobody who sees two of them can
    /// tell that it is the same person.
    #[must_use]
    pub fn for_thread(&self, thread: &ThreadId) -> Self {
        Self(*blake3::keyed_hash(&self.0, thread.as_str().as_bytes()).as_bytes())
    }

    /// 12 hexadecimal digits for a value of a kind.
    pub(super) fn tag(&self, kind: &str, value: &str) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(kind.as_bytes()).update(&[0]).update(value.as_bytes());
        hasher.finalize().to_hex()[..12].to_owned()
    }

    fn read(file: &Path) -> io::Result<Self> {
        let bytes = fs::read(file)?;
        let key = <[u8; 32]>::try_from(bytes.as_slice());
        key.map(Self).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the redaction key has not 32 bytes"))
    }
}

fn write_private(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(file)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn the_key_of_an_installation_stays_and_is_private() {
        let home = tempfile::tempdir().unwrap();
        let keys: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> =
                (0..8).map(|_| scope.spawn(|| RedactionKey::of_installation(home.path()).unwrap())).collect();
            running.into_iter().map(|thread| thread.join().unwrap().0).collect()
        });
        assert!(keys.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(RedactionKey::of_installation(home.path()).unwrap().0, keys[0]);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing is left over");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(home.path().join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_damaged_key_is_an_error_and_not_replaced() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), "short").unwrap();
        assert_eq!(RedactionKey::of_installation(home.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(fs::read(home.path().join(FILE)).unwrap(), b"short");
    }

    #[test]
    fn tags_depend_on_key_thread_kind_and_value() {
        let key = RedactionKey::from_secret("a secret of some length");
        let thread = |name: &str| key.for_thread(&ThreadId::parse(name).unwrap());
        let tags = [
            key.tag("EMAIL", "a"),
            key.tag("PHONE", "a"),
            key.tag("EMAIL", "b"),
            RedactionKey::from_secret("another secret").tag("EMAIL", "a"),
            thread("one").tag("EMAIL", "a"),
            thread("two").tag("EMAIL", "a"),
        ];
        let distinct: std::collections::BTreeSet<_> = tags.iter().collect();
        assert_eq!(distinct.len(), tags.len());
        assert_eq!(tags[4], thread("one").tag("EMAIL", "a"));
        assert!(tags.iter().all(|tag| tag.len() == 12 && tag.bytes().all(|b| b.is_ascii_hexdigit())));
    }
}
