//! The folder in which DeerFlow keeps its data.

use std::path::{Component, Path, PathBuf};

use crate::loader::{Env, HOME_VARIABLE};

/// There is no usable home folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HomeError {
    /// Neither `DEER_FLOW_HOME` nor `HOME` says where.
    #[error(
        "no home folder: neither `DEER_FLOW_HOME` nor `HOME` is set (hint: set `DEER_FLOW_HOME` to a folder for data)"
    )]
    Unset,
    /// `HOME` is needed and is not an absolute path.
    #[error("`HOME` is not an absolute path: {home:?} (hint: set `DEER_FLOW_HOME` to a folder for data)")]
    Relative {
        /// The value of `HOME`.
        home: String,
    },
}

/// The data folder: `DEER_FLOW_HOME`, else `~/.deer-flow`. A relative one is taken from `cwd`, `~` is expanded, and an
/// empty variable counts as unset. Nothing is created or looked at.
///
/// # Errors
/// [`HomeError`] when `HOME` is needed and is missing or relative.
pub fn home_dir(env: &Env, cwd: &Path) -> Result<PathBuf, HomeError> {
    match env.get(HOME_VARIABLE).map(|value| value.trim()).filter(|value| !value.is_empty()) {
        None => Ok(user_home(env)?.join(".deer-flow")),
        Some("~") => user_home(env),
        Some(value) => match value.strip_prefix("~/") {
            Some(rest) => Ok(tidy(&user_home(env)?.join(rest.trim_start_matches('/')))),
            None => Ok(tidy(&cwd.join(value))),
        },
    }
}

fn user_home(env: &Env) -> Result<PathBuf, HomeError> {
    match env.get("HOME").filter(|home| !home.is_empty()) {
        None => Err(HomeError::Unset),
        Some(home) if !Path::new(home).is_absolute() => Err(HomeError::Relative { home: home.clone() }),
        Some(home) => Ok(PathBuf::from(home)),
    }
}

/// Without `.` steps. `..` stays: it may cross a link.
fn tidy(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Env, HomeError, home_dir};
    use std::path::{Path, PathBuf};

    fn home(pairs: &[(&str, &str)]) -> Result<PathBuf, HomeError> {
        let env: Env = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        home_dir(&env, Path::new("/here"))
    }

    #[test]
    fn the_home_folder_is_found_or_the_reason_said() {
        assert_eq!(home(&[("HOME", "/home/ada")]), Ok("/home/ada/.deer-flow".into()));
        assert_eq!(home(&[("HOME", "/home/ada"), ("DEER_FLOW_HOME", "")]), Ok("/home/ada/.deer-flow".into()));
        assert_eq!(home(&[("DEER_FLOW_HOME", "/data")]), Ok("/data".into()));
        assert_eq!(home(&[("DEER_FLOW_HOME", "./data")]), Ok("/here/data".into()));
        assert_eq!(home(&[("HOME", "/home/ada"), ("DEER_FLOW_HOME", "~/d")]), Ok("/home/ada/d".into()));
        assert_eq!(home(&[]), Err(HomeError::Unset));
        assert_eq!(home(&[("HOME", "ada")]), Err(HomeError::Relative { home: "ada".into() }));
        assert_eq!(home(&[("DEER_FLOW_HOME", "~/d")]), Err(HomeError::Unset));
    }
}
