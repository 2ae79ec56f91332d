//! Keeps secrets out of what is printed: by key name, since a config file says in its keys what is secret.

use serde_json::Value;

use crate::nearest::nearest;

/// What stands for a secret in printed values.
pub const REDACTED: &str = "[redacted]";

/// Parts of a key that make its value a secret, compared in lower case without separators.
const SENSITIVE: &[&str] = &["key", "secret", "token", "password", "passwd", "credential", "authorization", "cookie"];

/// Names that are looked for when a key is misspelt.
const SLIPS_FOR: &[&str] = &["api_key", "secret", "token", "password", "credential", "authorization"];

/// Mappings whose values are all taken for secrets, whatever their keys are called.
const SENSITIVE_MAPS: &[&str] = &["headers", "default_headers", "env", "environment"];

/// Whether a value under this key is a secret by its name: `api_key`, `bot-token`, `clientSecret`, `Authorization`. A slip
/// for such a name counts: what `api_kye` holds is as secret.
pub fn is_sensitive_key(key: &str) -> bool {
    let plain: String = key.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect();
    SENSITIVE.iter().any(|part| plain.contains(part)) || nearest(key, SLIPS_FOR.iter().copied()).is_some()
}

/// Whether any of the keys on the way to a value makes it a secret.
pub(crate) fn is_sensitive_path<'a>(keys: impl IntoIterator<Item = &'a str>) -> bool {
    let keys: Vec<&str> = keys.into_iter().collect();
    keys.last().is_some_and(|last| is_sensitive_key(last))
        || keys.iter().rev().skip(1).any(|key| SENSITIVE_MAPS.contains(key))
}

/// Replaces the secrets in `value`: text under a sensitive key, text in lists under one, all values of header and
/// environment mappings, and the password of a URL anywhere. Numbers and booleans stay (`max_tokens: 4096`), except under
/// a key that says password or secret.
pub fn redact_value(value: &mut Value) {
    redact(value, "", /*all_secret*/ false);
}

fn redact(value: &mut Value, key: &str, all_secret: bool) {
    let sensitive = all_secret || is_sensitive_key(key);
    match value {
        Value::String(text) if sensitive => {
            if !text.is_empty() {
                REDACTED.clone_into(text);
            }
        }
        Value::String(text) => {
            if let Some(clean) = without_password(text) {
                *text = clean;
            }
        }
        Value::Number(_) if all_secret || ["password", "secret"].iter().any(|p| key.to_lowercase().contains(p)) => {
            *value = REDACTED.into();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, key, all_secret)),
        Value::Object(map) => {
            let all_secret = all_secret || SENSITIVE_MAPS.contains(&key);
            map.iter_mut().for_each(|(key, value)| redact(value, key, all_secret));
        }
    }
}

/// `scheme://user:password@host` without the password. `None` when there is none.
pub(crate) fn without_password(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (userinfo, _) = authority.rsplit_once('@')?;
    let (user, _) = userinfo.split_once(':')?;
    Some(format!("{scheme}://{user}:{REDACTED}{}", rest.get(userinfo.len()..)?))
}

/// The source text as it may be shown in a snippet: what follows a sensitive key is starred out, byte for byte, so that
/// positions stay true. Works on any text, since the file may not even be YAML.
pub(crate) fn mask_source(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    // Set while the lines of a block scalar, list or mapping under a sensitive key go by: its indent and what to hide.
    let mut block: Option<(usize, Block)> = None;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        let content = line.trim();
        if let Some((above, kind)) = block {
            let item = content.starts_with("- ") && indent >= above;
            if content.is_empty() || indent > above || (item && kind == Block::Items) {
                match kind {
                    Block::Items if !item && ends_key(content) => block = None,
                    Block::Values if ends_key(content) => {
                        mask_after(&mut masked, line, content_start_of_value(line));
                        continue;
                    }
                    Block::Text | Block::Items | Block::Values => {
                        mask_after(&mut masked, line, indent);
                        continue;
                    }
                }
            } else {
                block = None;
            }
        }
        let Some((key, key_at, value_at)) = sensitive_key_in(line) else {
            push_without_password(&mut masked, line);
            continue;
        };
        let value = line[value_at..].trim();
        let map = SENSITIVE_MAPS.contains(&key);
        if value.is_empty() || value.starts_with('#') || value.starts_with('&') {
            block = Some((key_at, if map { Block::Values } else { Block::Items }));
            masked.push_str(line);
        } else if value.starts_with(['|', '>']) {
            block = Some((key_at, Block::Text));
            masked.push_str(line);
        } else if is_plain_limit(key, value) || is_variable(value) {
            masked.push_str(line);
        } else {
            // A quoted value may run on over deeper lines; a plain one too.
            block = Some((key_at, Block::Text));
            mask_after(&mut masked, line, value_at);
        }
    }
    masked
}

#[derive(Clone, Copy, PartialEq)]
enum Block {
    /// A block scalar or the rest of a long one: every deeper line.
    Text,
    /// Perhaps a list of secrets: its items, until a line that has a key of its own.
    Items,
    /// A mapping of secrets: what follows each key.
    Values,
}

/// Whether the line has a `key:` of its own.
fn ends_key(content: &str) -> bool {
    content.ends_with(':') || content.contains(": ")
}

/// Byte position after the first `:` and the blanks behind it, or the end.
fn content_start_of_value(line: &str) -> usize {
    let after = line.find(':').map_or(line.len(), |at| at + 1);
    after + (line[after..].len() - line[after..].trim_start().len())
}

/// The first key in the line that is sensitive, where it starts and where its value starts.
fn sensitive_key_in(line: &str) -> Option<(&str, usize, usize)> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    line.match_indices([':', '=']).find_map(|(at, _)| {
        let before = line[..at].trim_end().trim_end_matches(['"', '\'']);
        let start =
            before.rfind(|c| !is_word(c)).map_or(0, |i| i + before[i..].chars().next().map_or(1, char::len_utf8));
        let key = &before[start..];
        let value = &line[at + 1..];
        let value_at = at + 1 + (value.len() - value.trim_start_matches([' ', '\t']).len());
        (is_sensitive_key(key) || SENSITIVE_MAPS.contains(&key)).then_some((key, start, value_at))
    })
}

/// A number or a boolean that is no secret whatever its key: `max_tokens: 5`.
fn is_plain_limit(key: &str, value: &str) -> bool {
    let spelled_out = ["password", "secret"].iter().any(|part| key.to_lowercase().contains(part));
    !spelled_out && (value.parse::<f64>().is_ok() || matches!(value, "true" | "false" | "null" | "~"))
}

/// The name of a variable is shown; it is what the problem is about.
fn is_variable(value: &str) -> bool {
    value.starts_with('$') && !value.starts_with("$$") && !value.contains([',', ' '])
}

/// Pushes `line` with the password of a URL in it starred.
fn push_without_password(out: &mut String, line: &str) {
    let password = line.find("://").map(|at| at + 3).and_then(|start| {
        let authority = line[start..].split(['/', '?', '#', ' ', '"', '\'']).next()?;
        let (userinfo, _) = authority.rsplit_once('@')?;
        let (user, _) = userinfo.split_once(':')?;
        Some((start + user.len() + 1, start + userinfo.len()))
    });
    match password {
        None => out.push_str(line),
        Some((from, to)) => {
            mask_after(out, &line[..to], from);
            out.push_str(&line[to..]);
        }
    }
}

/// Pushes `line` with everything from byte `from` starred, line end kept.
fn mask_after(out: &mut String, line: &str, from: usize) {
    let (keep, hide) = line.split_at(from.min(line.len()));
    out.push_str(keep);
    for c in hide.chars() {
        match c {
            '\n' | '\r' => out.push(c),
            c => out.extend(std::iter::repeat_n('*', c.len_utf8())),
        }
    }
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
