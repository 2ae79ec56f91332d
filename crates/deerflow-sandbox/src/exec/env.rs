//! The environment of a command: a fixed minimum, the configuration's, the request's. Nothing is inherited.

use std::collections::BTreeMap;

use crate::SandboxError;
use crate::config::valid_env;

/// Builds the environment; later layers win.
pub(crate) fn build(
    home: &str,
    tmp: &str,
    configured: &BTreeMap<String, String>,
    requested: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, SandboxError> {
    let minimum = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", home),
        ("TMPDIR", tmp),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("SHELL", "/bin/bash"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C.UTF-8"),
        ("TERM", "dumb"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ];
    let mut env: BTreeMap<String, String> = minimum.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    for (name, value) in configured.iter().chain(requested) {
        if !valid_env(name, value) {
            return Err(SandboxError::InvalidEnv { name: name.clone() });
        }
        env.insert(name.clone(), value.clone());
    }
    Ok(env.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_names_are_refused() {
        for name in ["", "1A", "A-B", "A B", "A=B", "É"] {
            let request = [(name.to_owned(), "x".to_owned())].into();
            assert!(build("/h", "/tmp", &BTreeMap::new(), &request).is_err(), "{name:?}");
        }
        let request = [("A".to_owned(), "a\0b".to_owned())].into();
        assert!(build("/h", "/tmp", &BTreeMap::new(), &request).is_err());
    }

    #[test]
    fn br_115_nothing_of_the_server_is_inherited() {
        let env = build("/h", "/tmp", &BTreeMap::new(), &[("PATH".to_owned(), "/x".to_owned())].into()).unwrap();
        assert!(env.contains(&("PATH".to_owned(), "/x".to_owned())));
        assert!(env.iter().all(|(name, _)| !name.starts_with("CARGO")), "{env:?}");
    }
}
