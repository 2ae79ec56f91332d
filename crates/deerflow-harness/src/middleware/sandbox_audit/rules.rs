//! The rules that go by text alone: a pattern, how bad it is, and what to tell the model.

use super::super::pattern::pattern;
use super::grade::{Grade, Level};
use regex::Regex;
use std::sync::LazyLock;

struct Rule {
    level: Level,
    /// In a real sandbox it harms nobody: there it is no more than a warning.
    tame: bool,
    reason: &'static str,
    pattern: LazyLock<Regex>,
}

macro_rules! rule {
    ($level:ident, $tame:literal, $reason:literal, $source:literal) => {
        Rule { level: Level::$level, tame: $tame, reason: $reason, pattern: LazyLock::new(|| pattern($source)) }
    };
}

/// Checked over the whole command and over each part.
static BLOCK: [Rule; 11] = [
    rule!(
        Block,
        /*tame*/ false,
        "writes to a device with dd",
        r"\bdd\b[^;&|\n]*\bof=/dev/(?:[a-mo-rt-z]|n[^u]|s[^t])"
    ),
    rule!(Block, /*tame*/ true, "copies raw data with dd", r"\bdd\b[^;&|\n]*\bif="),
    rule!(Block, /*tame*/ false, "makes a file system", r"\bmkfs(?:\.[a-z0-9]+)?\b"),
    rule!(Block, /*tame*/ false, "reads the password file", r"/etc/shadow\b"),
    rule!(
        Block,
        /*tame*/ false,
        "overwrites system files",
        r#"(?:>|\btee (?:-a )?)\|? ?["']?/(?:etc|(?:usr/(?:local/)?)?s?bin)/"#
    ),
    rule!(
        Block,
        /*tame*/ false,
        "overwrites a start-up file of the shell",
        r#"(?:>|\btee (?:-a )?)\|? ?["']?(?:~|\$HOME|\$\{HOME\}|/root|/home/[^/\s]+)["']?/?\.(?:bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zprofile|zshenv|zlogin)\b"#
    ),
    rule!(Block, /*tame*/ false, "reads the environment of a process", r"/proc/\S*/environ\b"),
    rule!(Block, /*tame*/ false, "loads a library into every program", r"\bLD_PRELOAD\+?="),
    rule!(Block, /*tame*/ true, "changes where libraries are loaded from", r"\bLD_LIBRARY_PATH\+?="),
    rule!(Block, /*tame*/ false, "opens a network connection from the shell", r"/dev/(?:tcp|udp)/"),
    rule!(
        Block,
        /*tame*/ false,
        "starts processes without end",
        r"\b(?:while|until) (?:true|false|:|1|\[+ ?1 ?\]+)\s?;?\s?do\b(?:[^&]|&&)*[^&]&\s?;?\s?done\b"
    ),
];

/// Checked over each part.
static WARN: [Rule; 3] = [
    rule!(Warn, /*tame*/ false, "makes files writable for everybody", r"\bchmod\b[^;&|\n]* 0?777\b"),
    rule!(Warn, /*tame*/ false, "installs Python packages", r"\bpip[0-9.]*\b[^;&|\n]* install\b"),
    rule!(Warn, /*tame*/ false, "installs system packages", r"\bapt(?:-get|itude)?\b[^;&|\n]* install\b"),
];

/// Grades a normalised text. `part`: it is one simple command.
pub(super) fn by_text(text: &str, part: bool, isolated: bool) -> Grade {
    let mut worst = Grade::pass();
    let warn: &[Rule] = if part { &WARN } else { &[] };
    for rule in BLOCK.iter().chain(warn).filter(|rule| rule.pattern.is_match(text)) {
        let level = if isolated && rule.tame { Level::Warn } else { rule.level };
        worst = worst.or_worse(Grade::new(level, rule.reason));
    }
    if removes_root(text) {
        worst = worst.or_worse(Grade::block("deletes the file system or a home directory"));
    }
    if is_fork_bomb(text) {
        worst = worst.or_worse(Grade::block("starts processes without end"));
    }
    worst
}

static REMOVE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\brm\b([^;&|\n]*)"));
/// The root, all in it, and home directories with all in them, quotes and repeated slashes left out.
static ROOT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^(?:/\.{0,2}|(?:~[a-z]*|\$HOME|\$\{HOME\}|/root|/home(?:/[^/*]+)?)/?)\*?$|^(?:/\.)?/\*$")
});

/// Whether there is an `rm` that goes into directories, at one of these.
fn removes_root(text: &str) -> bool {
    REMOVE.captures_iter(text).any(|found| {
        let arguments: Vec<String> = found[1]
            .split_whitespace()
            .map(|word| word.chars().filter(|c| !matches!(c, '"' | '\'' | '\\' | ')' | '`' | '}')).collect::<String>())
            .map(|word| if word.starts_with("${HOME") { word.replacen("${HOME", "${HOME}", 1) } else { word })
            .collect();
        let recursive = arguments.iter().any(|word| {
            word == "--recursive"
                || word == "--no-preserve-root"
                || (word.starts_with('-') && !word.starts_with("--") && word.contains(['r', 'R']))
        });
        recursive && arguments.iter().any(|word| ROOT.is_match(&without_double_slashes(word)))
    })
}

fn without_double_slashes(path: &str) -> String {
    let mut plain = path.to_owned();
    while plain.contains("//") {
        plain = plain.replace("//", "/");
    }
    plain
}

static FUNCTION: LazyLock<Regex> = LazyLock::new(|| pattern(r"([A-Za-z_:.][A-Za-z0-9_:.-]*) ?\( ?\)\s*\{([^}]*)"));

/// A function that pipes itself into itself in the background.
fn is_fork_bomb(text: &str) -> bool {
    FUNCTION.captures_iter(text).any(|found| {
        let body: String = found[2].chars().filter(|c| !c.is_whitespace()).collect();
        let name = &found[1];
        body.contains(&format!("{name}|{name}&")) || body.contains(&format!("{name}&{name}&"))
    })
}
