//! Commands that need no shell.

use std::ffi::{CStr, CString};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// First words that mean something to the shell itself. (`true` and `false` do too, but the programs do the same.)
const SHELL_WORDS: &[&str] = &[
    ".",
    ":",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
];

/// The program and the words of a command that is nothing but words, for which the shell would do just the same: this saves
/// starting it. Anything else is left to the shell.
pub(super) fn plain(command: &str, path: &str) -> Option<(CString, Vec<CString>)> {
    let harmless = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, ' ' | '/' | '.' | '_' | '-' | ',' | ':' | '+' | '@' | '%' | '=')
    };
    if !command.chars().all(harmless) {
        return None;
    }
    let words: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
    let name = *words.first()?;
    if name.contains(['=', '/', '%']) || SHELL_WORDS.contains(&name) {
        return None;
    }
    let program =
        path.split(':').filter(|dir| dir.starts_with('/')).map(|dir| Path::new(dir).join(name)).find(|file| {
            std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })?;
    let program = CString::new(program.into_os_string().into_encoded_bytes()).ok()?;
    let words = words.into_iter().map(CString::new).collect::<Result<_, _>>().ok()?;
    Some((program, words))
}

/// Borrowed, as the system call wants them.
pub(super) fn borrowed(words: &[CString]) -> Vec<&CStr> {
    words.iter().map(CString::as_c_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_words_of_a_known_program_go_without_a_shell() {
        let words = |command: &str| plain(command, "/usr/bin:/bin").map(|(_, words)| words.len());
        assert_eq!(words("true"), Some(1));
        assert_eq!(words("  ls -la  /tmp "), Some(3));
        assert_eq!(words("env A=b"), Some(2));
        for command in [
            "",
            "cd /tmp",
            "echo hi",
            "A=b ls",
            "ls *",
            "ls ~",
            "ls $HOME",
            "ls; ls",
            "ls | cat",
            "ls > f",
            "ls 'a b'",
            "ls\nls",
            "./ls",
            "no-such-program",
            "if true",
            "ls #x",
            "ls &",
            "ls {a,b}",
            "!ls",
            "ls\\",
            "ls `x`",
            "(ls)",
            "[ a ]",
            "%1",
        ] {
            assert_eq!(words(command), None, "{command:?}");
        }
    }
}
