//! How bad a command is: the worst of what its text, its parts and what they would run say.

use super::super::pattern::pattern;
use super::rules::by_text;
use super::split::{Piece, normalise, split, substitutions_in_quotes, words};
use regex::Regex;
use std::sync::LazyLock;

/// How bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Pass,
    Warn,
    Block,
}

/// How bad and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grade {
    pub(super) level: Level,
    pub(super) reason: &'static str,
}

impl Grade {
    pub(super) fn new(level: Level, reason: &'static str) -> Self {
        Self { level, reason }
    }
    pub(super) fn pass() -> Self {
        Self::new(Level::Pass, "")
    }
    pub(super) fn block(reason: &'static str) -> Self {
        Self::new(Level::Block, reason)
    }
    pub(super) fn warn(reason: &'static str) -> Self {
        Self::new(Level::Warn, reason)
    }
    /// The worse of two; of equals the first.
    pub(super) fn or_worse(self, other: Self) -> Self {
        if other.level > self.level { other } else { self }
    }
}

/// Commands inside commands that are followed.
const MAX_DEPTH: usize = 6;
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];
/// Words in front of a command that are no command themselves.
const KEYWORDS: [&str; 10] = ["if", "then", "elif", "else", "do", "while", "until", "!", "{", "coproc"];
/// Commands that run the rest of the line.
const WRAPPERS: [&str; 12] =
    ["env", "command", "builtin", "exec", "nohup", "time", "sudo", "doas", "timeout", "nice", "setsid", "stdbuf"];
/// Their flags that take a word.
const FLAGS_WITH_WORD: [&str; 9] = ["-u", "-g", "-a", "-n", "-k", "-s", "-C", "-S", "-p"];

/// A substitution whose output came from the network or an interpreter, at the start of a text.
static RISKY_START: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"^["']*(?:[$<]\(|`)\s*(?:[^\s()`]*/)?(?:curl|wget|bash|sh|python[0-9.]*|ruby|perl|base64)(?:[\s)`"';|<>&]|$)"#,
    )
});
/// The same anywhere in it.
static RISKY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(?:[$<]\(|`)\s*(?:[^\s()`]*/)?(?:curl|wget|bash|sh|python[0-9.]*|ruby|perl|base64)(?:[\s)`"';|<>&]|$)"#)
});
/// `eval` or `source` of such a substitution, wherever it is written.
static EVALUATES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"\b(?:eval|source)\s+["']?(?:[$<]\(|`)\s*(?:[^\s()`]*/)?(?:curl|wget|bash|sh|python[0-9.]*|ruby|perl|base64)(?:[\s)`"';|<>&]|$)"#,
    )
});
/// A pipe into a shell, for texts that cannot be taken apart.
static PIPE_TO_SHELL: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:^|[^|])\|&?\s*(?:sudo\s+|env\s+)*(?:[^\s|]*/)?(?:ba|da|z|k|a)?sh(?:[\s;&|)<>]|$)"));
static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?="));

/// Grades a command. `isolated`: it would run in a real sandbox, where some rules need not be so strict.
pub(super) fn grade(command: &str, isolated: bool) -> Grade {
    grade_at(command, isolated, 0)
}

fn grade_at(command: &str, isolated: bool, depth: usize) -> Grade {
    if depth > MAX_DEPTH {
        return Grade::block("is nested too deeply to be looked at");
    }
    let whole = normalise(command);
    let mut worst = by_text(&whole, false, isolated);
    if EVALUATES.is_match(&whole) {
        worst = worst.or_worse(Grade::block("evaluates what was downloaded or decoded"));
    }
    let taken = split(command);
    let pieces = &taken.pieces;
    for (at, piece) in pieces.iter().enumerate() {
        let graded = match piece {
            Piece::Command(text) => {
                let piped = matches!(pieces.get(at + 1), Some(Piece::Operator("|" | "|&")));
                let fed = source_of_pipe(&pieces[..at]);
                let part = Part { text, fed, piped, isolated, depth };
                part.grade()
            }
            Piece::Operator(_) => Grade::pass(),
            Piece::Heredoc { text, literal } => {
                let reads = pieces[..at].iter().rev().filter_map(|piece| match piece {
                    Piece::Command(text) => Some(*text),
                    _ => None,
                });
                let mut graded = Grade::pass();
                // The line that announced it may have several commands; one shell among them is enough.
                if reads
                    .take_while(|text| !text.contains('\n'))
                    .take(8)
                    .any(|text| text.contains("<<") && runs_shell(text))
                {
                    graded = graded.or_worse(grade_at(text, isolated, depth + 1));
                }
                if !literal {
                    for body in substitutions_in_quotes(text) {
                        graded = graded.or_worse(grade_at(body, isolated, depth + 1));
                    }
                }
                graded
            }
        };
        worst = worst.or_worse(graded);
    }
    for body in &taken.substitutions {
        worst = worst.or_worse(grade_at(body, isolated, depth + 1));
    }
    if !taken.balanced {
        // The shell runs the lines before the fault. Every part that could be one counts.
        if PIPE_TO_SHELL.is_match(&whole) {
            worst = worst.or_worse(Grade::block("runs what a pipe gives it as commands"));
        }
        for text in command.split(['\n', ';', '&', '|']) {
            worst = worst.or_worse(Part { text, fed: None, piped: false, isolated, depth }.grade());
        }
    }
    worst
}

/// The command whose output is piped into what follows these pieces. Line breaks and bodies may stand behind the pipe.
fn source_of_pipe<'a>(before: &[Piece<'a>]) -> Option<&'a str> {
    let mut piped = false;
    for piece in before.iter().rev() {
        match piece {
            Piece::Command(text) if text.trim().is_empty() => {}
            Piece::Command(text) => return piped.then_some(*text),
            Piece::Operator("\n") | Piece::Heredoc { .. } => {}
            Piece::Operator("|" | "|&") => piped = true,
            Piece::Operator(_) => return None,
        }
    }
    None
}

/// Whether the command is a shell that takes its script from its input.
fn runs_shell(text: &str) -> bool {
    let words = words(text);
    let (command, _) = command_of(&words);
    command.first().is_some_and(|name| SHELLS.contains(&base_name(name)))
}

/// One simple command in its place.
struct Part<'a> {
    text: &'a str,
    /// What is piped into it.
    fed: Option<&'a str>,
    /// Its output is piped on.
    piped: bool,
    isolated: bool,
    depth: usize,
}

impl Part<'_> {
    fn grade(&self) -> Grade {
        let raw = normalise(self.text.trim());
        let words = words(self.text);
        let joined = words.join(" ");
        let mut worst = by_text(&raw, true, self.isolated).or_worse(by_text(&joined, true, self.isolated));
        let (command, prefixes) = command_of(&words);
        if prefixes.iter().any(|word| ASSIGNMENT.is_match(word) && word.starts_with("PATH"))
            || (command.first().is_some_and(|name| name == "export" || name == "declare" || name == "typeset")
                && command.iter().any(|word| word.starts_with("PATH=") || word.starts_with("PATH+=")))
        {
            worst = worst.or_worse(Grade::warn("changes where programs are looked for"));
        }
        if prefixes.iter().any(|word| *word == "sudo" || *word == "doas")
            || command.first().is_some_and(|name| base_name(name) == "su")
        {
            worst = worst.or_worse(Grade::warn("asks for another user's rights"));
        }
        let Some(name) = command.first() else { return worst };
        if RISKY_START.is_match(&command.join(" ")) {
            worst = worst.or_worse(Grade::block("runs what was downloaded or decoded"));
        }
        worst.or_worse(self.by_command(base_name(name), &command[1..], &raw))
    }

    fn by_command(&self, name: &str, arguments: &[String], raw: &str) -> Grade {
        let interpreter = SHELLS.contains(&name) || is_script_language(name);
        let feeds_decoded = self.fed.is_some_and(decodes);
        if SHELLS.contains(&name) && self.fed.is_some() && reads_script_from_input(arguments) {
            return Grade::block("runs what a pipe gives it as commands");
        }
        if interpreter && feeds_decoded {
            return Grade::block("runs what was decoded");
        }
        if self.piped && decodes(self.text) {
            let reason = "decodes base64 into a pipe";
            return if self.isolated { Grade::warn(reason) } else { Grade::block(reason) };
        }
        if matches!(name, "eval" | "source" | ".") && RISKY.is_match(raw) {
            return Grade::block("evaluates what was downloaded or decoded");
        }
        if name == "eval" {
            return grade_at(&arguments.join(" "), self.isolated, self.depth + 1);
        }
        if !interpreter {
            return Grade::pass();
        }
        let code = code_argument(arguments);
        if RISKY.is_match(raw) && (code.is_some() || raw.contains("<<<")) {
            return Grade::block("runs what was downloaded or decoded");
        }
        match code {
            Some(code) if SHELLS.contains(&name) => grade_at(code, self.isolated, self.depth + 1),
            _ => Grade::pass(),
        }
    }
}

fn is_script_language(name: &str) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    matches!(plain, "python" | "perl" | "ruby" | "node" | "php")
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word).trim_end_matches([')', '}', '`'])
}

/// Whether the command is a `base64` that decodes.
fn decodes(text: &str) -> bool {
    let words = words(text);
    let (command, _) = command_of(&words);
    let flag = |word: &String| {
        word == "--decode" || (word.starts_with('-') && !word.starts_with("--") && word.contains(['d', 'D']))
    };
    command.first().is_some_and(|name| base_name(name) == "base64") && command[1..].iter().any(flag)
}

/// A shell with a file or with `-c` does not take commands from the pipe.
fn reads_script_from_input(arguments: &[String]) -> bool {
    if arguments.iter().any(|word| word == "-s" || word == "-") {
        return true;
    }
    let mut operands = arguments.iter().take_while(|word| !word.contains('<') && !word.contains('>'));
    code_argument(arguments).is_none() && !operands.any(|word| !word.starts_with('-') && !word.starts_with('+'))
}

/// What an interpreter is told to run: the word after a flag with `c`, `e`, `p` or `r` in it, before any file.
fn code_argument(arguments: &[String]) -> Option<&str> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let flags = word.strip_prefix('-')?;
        if flags.starts_with('-') {
            if matches!(flags, "-eval" | "-print" | "-command") {
                return words.next().map(String::as_str);
            }
            continue;
        }
        if let Some(at) = flags.find(['c', 'e', 'p', 'r']) {
            // `-e'code'` has the code in the same word.
            let code = &flags[at + 1..];
            let together = code.contains(|c: char| !c.is_ascii_alphanumeric());
            return if together { Some(code) } else { words.next().map(String::as_str) };
        }
    }
    None
}

/// The words from the command on, and those in front of it: keywords, assignments and wrappers.
fn command_of(words: &[String]) -> (&[String], Vec<&str>) {
    let mut prefixes = Vec::new();
    let mut at = 0;
    let mut wrapper = "";
    while let Some(word) = words.get(at) {
        let plain = word.trim_start_matches(['(', '{']);
        if plain.is_empty() || KEYWORDS.contains(&plain) || ASSIGNMENT.is_match(plain) {
            prefixes.push(plain);
        } else if WRAPPERS.contains(&base_name(plain)) {
            wrapper = base_name(plain);
            prefixes.push(wrapper);
        } else if !wrapper.is_empty() && word.starts_with('-') {
            if FLAGS_WITH_WORD.contains(&word.as_str()) && wrapper != "time" && wrapper != "command" {
                at += 1;
            }
        } else if wrapper == "timeout" && word.starts_with(|c: char| c.is_ascii_digit()) {
            wrapper = "env";
        } else {
            break;
        }
        at += 1;
    }
    (words.get(at..).unwrap_or_default(), prefixes)
}
