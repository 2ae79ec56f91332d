//! A home that nobody minds losing.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A directory that is removed with this value.
#[derive(Debug)]
pub struct TempHome(TempDir);

/// An empty home in the system's folder for temporary files. Its path is short enough for unix sockets beneath it.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn temp_home() -> TempHome {
    TempHome(tempfile::Builder::new().prefix("df-").tempdir().expect("the system's temporary folder is writable"))
}

impl TempHome {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file below the home, with the folders on the way, and says where it stands.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(relative);
        let parent = path.parent().expect("a path below the home has a parent");
        fs::create_dir_all(parent).expect("the home is writable");
        fs::write(&path, content).expect("the home is writable");
        path
    }

    /// The text of a file below the home; `None` when there is no such file.
    ///
    /// # Panics
    /// When it is there but cannot be read as text.
    #[must_use]
    pub fn read(&self, relative: impl AsRef<Path>) -> Option<String> {
        match fs::read_to_string(self.path().join(relative)) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => panic!("cannot read a file of the home: {error}"),
        }
    }

    /// Every file below the home, relative to it, sorted. Links are listed, not followed.
    ///
    /// # Panics
    /// When a folder cannot be read.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder of the home is readable") {
                let entry = entry.expect("a folder of the home is readable");
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                } else if let Ok(relative) = path.strip_prefix(self.path()) {
                    found.push(relative.to_path_buf());
                }
            }
        }
        found.sort();
        found
    }
}
