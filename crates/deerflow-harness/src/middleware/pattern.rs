//! Regular expressions written in the source.

use regex::Regex;

/// Compiles a literal; keep it in a `LazyLock`.
#[expect(clippy::expect_used, reason = "every pattern is a literal, compiled by a test of the module it is in")]
pub(super) fn pattern(source: &'static str) -> Regex {
    Regex::new(source).expect("literal pattern")
}
