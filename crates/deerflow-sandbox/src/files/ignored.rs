//! Names that listings and searches leave out, at any depth.

use std::sync::OnceLock;

use globset::{Glob, GlobSet, GlobSetBuilder};

const NAMES: [&str; 49] = [
    ".git",
    ".svn",
    ".hg",
    ".bzr",
    "node_modules",
    "__pycache__",
    ".venv",
    "venv",
    ".env",
    "env",
    ".tox",
    ".nox",
    ".eggs",
    "site-packages",
    "dist",
    "build",
    ".next",
    ".nuxt",
    ".output",
    ".turbo",
    "target",
    "out",
    ".idea",
    ".vscode",
    ".project",
    ".classpath",
    ".settings",
    ".DS_Store",
    "Thumbs.db",
    "desktop.ini",
    ".cache",
    "logs",
    ".coverage",
    "coverage",
    ".nyc_output",
    "htmlcov",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    "*.egg-info",
    "*.swp",
    "*.swo",
    "*~",
    "*.lnk",
    "*.log",
    "*.tmp",
    "*.temp",
    "*.bak",
    "*.cache",
];

/// True for a name that is left out.
pub(super) fn is_ignored(name: &str) -> bool {
    static SET: OnceLock<GlobSet> = OnceLock::new();
    let set = SET.get_or_init(|| {
        let mut builder = GlobSetBuilder::new();
        for name in NAMES.into_iter().chain([".upload-*.part"]) {
            // The patterns are constants; one that does not parse would be caught by the test below.
            if let Ok(glob) = Glob::new(name) {
                builder.add(glob);
            }
        }
        builder.build().unwrap_or_default()
    });
    set.is_match(name)
}

#[cfg(test)]
mod tests {
    use super::is_ignored;

    #[test]
    fn names_and_patterns_are_ignored() {
        for name in [
            ".git",
            "node_modules",
            "x.egg-info",
            "a.log",
            "b~",
            ".upload-1.part",
            "target",
            ".DS_Store",
            ".deerflow-1.tmp",
        ] {
            assert!(is_ignored(name), "{name}");
        }
        for name in ["src", "gitignore", "logs.txt", "x.part", "environment", ".gitignore", "a.rs"] {
            assert!(!is_ignored(name), "{name}");
        }
    }
}
