//! Glob and grep: one meaning for every provider.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;

use globset::{GlobBuilder, GlobMatcher};
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::UTF8;
use grep_searcher::{Searcher, SearcherBuilder};
use rustix::fs::{FileType, Mode, OFlags};

use super::walk::{Found, Walk, join};
use super::{FileKind, MAX_TEXT_BYTES, ThreadFiles};
use crate::{SandboxError, VirtualPath, text};

const GLOB_DEFAULT: usize = 200;
const GLOB_MAX: usize = 1000;
const GREP_DEFAULT: usize = 100;
const GREP_MAX: usize = 500;
/// Larger files are searched only when they are named.
const MAX_SEARCHED: u64 = 8 * 1024 * 1024;
const MAX_SHOWN: usize = 200;

/// Paths that matched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobOutcome {
    /// Virtual paths, in order.
    pub paths: Vec<String>,
    /// More matched than were asked for.
    pub truncated: bool,
}

/// A text search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrepQuery {
    /// Regular expression, or text when `literal`.
    pub pattern: String,
    /// Only files whose path matches this glob.
    pub glob: Option<String>,
    /// The pattern is plain text.
    pub literal: bool,
    /// Upper and lower case differ.
    pub case_sensitive: bool,
    /// Matches wanted: 0 is 100, at most 500.
    pub max_results: usize,
}

/// A line that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepMatch {
    /// Virtual path.
    pub path: String,
    /// 1-based.
    pub line_number: u64,
    /// The line, at most 200 characters, around the match when it is longer.
    pub line: String,
}

/// Lines that matched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrepOutcome {
    /// In order of path and line.
    pub matches: Vec<GrepMatch>,
    /// More matched than were asked for.
    pub truncated: bool,
    /// Files left out because they are larger than is searched beneath a directory.
    pub skipped_large: usize,
}

impl ThreadFiles {
    /// Paths beneath a directory that match a glob.
    ///
    /// # Errors
    /// [`SandboxError::InvalidPattern`], any of the path errors.
    pub fn glob(
        &self,
        path: &VirtualPath,
        pattern: &str,
        include_dirs: bool,
        max_results: usize,
    ) -> Result<GlobOutcome, SandboxError> {
        let matcher = PathMatcher::new(pattern, path)?;
        let max = effective(max_results, GLOB_DEFAULT, GLOB_MAX);
        let base = path.as_str();
        let mut outcome = GlobOutcome::default();
        for start in self.starts(path)? {
            let mut walk = Walk::new(usize::MAX, |found: &Found<'_>| {
                let relative = join_relative(&start.relative, found.relative);
                if !matcher.is_match(&relative) {
                    return ControlFlow::Continue(());
                }
                let full = join(base, &relative);
                let wanted = match found.kind {
                    FileType::RegularFile => true,
                    FileType::Directory => include_dirs,
                    FileType::Symlink => {
                        self.resolve(&full, false).ok().and_then(|target| target.stat).is_some_and(|stat| {
                            match FileType::from_raw_mode(stat.st_mode) {
                                FileType::RegularFile => true,
                                FileType::Directory => include_dirs,
                                _ => false,
                            }
                        })
                    }
                    _ => false,
                };
                if !wanted {
                    return ControlFlow::Continue(());
                }
                if outcome.paths.len() == max {
                    outcome.truncated = true;
                    return ControlFlow::Break(());
                }
                outcome.paths.push(full);
                ControlFlow::Continue(())
            });
            let _ = walk.run(&start.dir);
            let bounded = walk.bounded;
            outcome.truncated |= bounded;
            if outcome.truncated {
                break;
            }
        }
        Ok(outcome)
    }

    /// Lines that match, in one file or beneath a directory.
    ///
    /// # Errors
    /// [`SandboxError::InvalidPattern`], any of the path errors.
    pub fn grep(&self, path: &VirtualPath, query: &GrepQuery) -> Result<GrepOutcome, SandboxError> {
        let mut search = Grep::new(query)?;
        let filter = query.glob.as_deref().map(|glob| PathMatcher::new(glob, path)).transpose()?;
        let base = path.as_str();
        if self.stat(path)?.kind != FileKind::Directory {
            let wanted = filter.as_ref().is_none_or(|filter| filter.is_match(path.file_name()));
            if wanted {
                let bytes = self.read_bytes(path, MAX_TEXT_BYTES)?;
                let _ = search.search(base, &bytes);
            }
            return Ok(search.outcome);
        }
        for start in self.starts(path)? {
            let mut walk = Walk::new(usize::MAX, |found: &Found<'_>| {
                let relative = join_relative(&start.relative, found.relative);
                if found.kind != FileType::RegularFile
                    || filter.as_ref().is_some_and(|filter| !filter.is_match(&relative))
                {
                    return ControlFlow::Continue(());
                }
                if found.size > MAX_SEARCHED {
                    search.outcome.skipped_large += 1;
                    return ControlFlow::Continue(());
                }
                // What cannot be read, or vanished, is skipped.
                let Some(bytes) = read_found(found) else { return ControlFlow::Continue(()) };
                search.search(&join(base, &relative), &bytes)
            });
            let _ = walk.run(&start.dir);
            let bounded = walk.bounded;
            search.outcome.truncated |= bounded;
            if search.outcome.truncated {
                break;
            }
        }
        Ok(search.outcome)
    }
}

fn read_found(found: &Found<'_>) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(found.dir, found.name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.size).unwrap_or(0));
    File::from(fd).take(MAX_SEARCHED).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

struct Grep {
    matcher: RegexMatcher,
    searcher: Searcher,
    max: usize,
    outcome: GrepOutcome,
}

impl Grep {
    fn new(query: &GrepQuery) -> Result<Self, SandboxError> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(!query.case_sensitive)
            .fixed_strings(query.literal)
            .crlf(true)
            .size_limit(16 << 20)
            .build(&query.pattern)
            .map_err(|error| SandboxError::InvalidPattern { what: "regex pattern", message: error.to_string() })?;
        let searcher = SearcherBuilder::new().line_number(true).line_terminator(LineTerminator::crlf()).build();
        let max = effective(query.max_results, GREP_DEFAULT, GREP_MAX);
        Ok(Self { matcher, searcher, max, outcome: GrepOutcome::default() })
    }

    /// Searches one file; breaks once there is one match too many.
    fn search(&mut self, path: &str, bytes: &[u8]) -> ControlFlow<()> {
        let Some(decoded) = text::decode(bytes) else { return ControlFlow::Continue(()) };
        let Self { matcher, searcher, max, outcome } = self;
        let sink = UTF8(|line_number, line| {
            if outcome.matches.len() == *max {
                outcome.truncated = true;
                return Ok(false);
            }
            let line = show(line.trim_end_matches(['\n', '\r']), matcher);
            outcome.matches.push(GrepMatch { path: path.to_owned(), line_number, line });
            Ok(true)
        });
        // The slice is UTF-8 and in memory: the only error left is a pattern engine limit, and then there is no match.
        let _ = searcher.search_slice(&*matcher, decoded.text.as_bytes(), sink);
        if outcome.truncated { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The line, or 200 characters of it around the match.
fn show(line: &str, matcher: &RegexMatcher) -> String {
    if line.chars().count() <= MAX_SHOWN {
        return line.to_owned();
    }
    let at = find_start(matcher, line).map_or(0, |byte| line[..line.floor_char_boundary(byte)].chars().count());
    let skip = at.saturating_sub(MAX_SHOWN / 4);
    let shown: String = line.chars().skip(skip).take(MAX_SHOWN).collect();
    let (before, after) =
        (if skip > 0 { "..." } else { "" }, if skip + MAX_SHOWN < line.chars().count() { "..." } else { "" });
    format!("{before}{shown}{after}")
}

fn find_start(matcher: &RegexMatcher, line: &str) -> Option<usize> {
    matcher.find(line.as_bytes()).ok().flatten().map(|found| found.start())
}

fn effective(wanted: usize, default: usize, max: usize) -> usize {
    if wanted == 0 { default } else { wanted.min(max) }
}

fn join_relative(prefix: &str, relative: &str) -> String {
    if prefix.is_empty() { relative.to_owned() } else { format!("{prefix}/{relative}") }
}

/// A glob over paths relative to the search root.
struct PathMatcher {
    glob: GlobMatcher,
    name_only: bool,
}

impl PathMatcher {
    /// A pattern without `/` matches names at any depth; with one it is anchored at the search root. A leading `/`, `./` or
    /// the search root itself is taken off.
    fn new(pattern: &str, root: &VirtualPath) -> Result<Self, SandboxError> {
        let invalid = |message: String| SandboxError::InvalidPattern { what: "glob pattern", message };
        let pattern = crate::path::strip_prefix(pattern, root.as_str()).unwrap_or(pattern);
        let pattern = pattern.trim_start_matches("./").trim_start_matches('/');
        if pattern.is_empty() {
            return Err(invalid("it is empty".to_owned()));
        }
        if pattern.split('/').any(|part| part == "..") {
            return Err(invalid("'..' is not allowed".to_owned()));
        }
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| invalid(error.to_string()))?
            .compile_matcher();
        Ok(Self { glob, name_only: !pattern.contains('/') })
    }

    fn is_match(&self, relative: &str) -> bool {
        let subject = if self.name_only { relative.rsplit('/').next().unwrap_or(relative) } else { relative };
        self.glob.is_match(subject)
    }
}
