//! Host paths in text become virtual paths.

use crate::files::MountTable;

/// Replaces host directories by their virtual paths, longest first, only where the directory's name ends.
#[derive(Debug, Clone)]
pub struct PathMask {
    /// Host prefix and what to show, longest host prefix first.
    pairs: Vec<(String, String)>,
}

impl PathMask {
    /// A mask of a mount table and further pairs (`HOME`, `/tmp`).
    #[must_use]
    pub fn new(mounts: &MountTable, further: &[(String, String)]) -> Self {
        let mut pairs: Vec<(String, String)> = mounts
            .iter()
            .filter_map(|mount| Some((mount.host.to_str()?.to_owned(), mount.prefix.clone())))
            .chain(further.iter().cloned())
            .filter(|(host, _)| host.len() > 1)
            .collect();
        // The kernel reports real paths: a base behind a link must be masked by both names.
        for (host, shown) in pairs.clone() {
            if let Some(real) = std::fs::canonicalize(&host).ok().and_then(|path| path.to_str().map(str::to_owned))
                && real != host
            {
                pairs.push((real, shown));
            }
        }
        pairs.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.0.cmp(&b.0)));
        Self { pairs }
    }

    /// The text with host paths masked.
    #[must_use]
    pub fn apply(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for (host, shown) in &self.pairs {
            if masked.contains(host.as_str()) {
                masked = replace_prefix(&masked, host, shown);
            }
        }
        masked
    }
}

/// Replaces `from` where it is not followed by a character that continues a name.
pub(crate) fn replace_prefix(text: &str, from: &str, to: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, found) = rest.split_at(at);
        let after = &found[from.len()..];
        let continues = after.chars().next().is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'));
        out.push_str(before);
        out.push_str(if continues { from } else { to });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Replaces whole paths and what is beneath them, in one pass: what was put in is not looked at again. The first pair that
/// fits wins.
pub(crate) fn translate(text: &str, pairs: &[(String, String)]) -> String {
    let in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = ' ';
    while let Some(next) = rest.chars().next() {
        let starts = next == '/' && !in_name(before) && before != '/';
        let fits = |from: &str| rest.strip_prefix(from).is_some_and(|after| !after.starts_with(in_name));
        if starts && let Some((from, to)) = pairs.iter().find(|(from, _)| fits(from)) {
            out.push_str(to);
            rest = &rest[from.len()..];
            before = 'x';
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
            before = next;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{replace_prefix, translate};

    #[test]
    fn only_paths_that_begin_there_are_translated_and_only_once() {
        let pairs = [("/mnt/user-data", "/tmp/h/user-data"), ("/tmp", "/tmp/h/tmp")];
        let pairs = pairs.map(|(from, to)| (from.to_owned(), to.to_owned()));
        let text = "cp /mnt/user-data/a /tmp/b; ls /var/tmp /mnt/user-data2 x=/tmp '/tmp' http://a/tmp/b 界/tmp";
        assert_eq!(
            translate(text, &pairs),
            "cp /tmp/h/user-data/a /tmp/h/tmp/b; ls /var/tmp /mnt/user-data2 x=/tmp/h/tmp '/tmp/h/tmp' http://a/tmp/b 界/tmp"
        );
    }

    #[test]
    fn br_101_only_whole_names_are_masked() {
        let mask = |text| replace_prefix(text, "/srv/d/user-data", "/mnt/user-data");
        assert_eq!(mask("cat /srv/d/user-data/workspace/a"), "cat /mnt/user-data/workspace/a");
        assert_eq!(mask("/srv/d/user-data: not found"), "/mnt/user-data: not found");
        assert_eq!(mask("/srv/d/user-data-backup/x"), "/srv/d/user-data-backup/x");
        assert_eq!(mask("/srv/d/user-data.old /srv/d/user-data2"), "/srv/d/user-data.old /srv/d/user-data2");
        assert_eq!(mask("界/srv/d/user-data"), "界/mnt/user-data");
    }
}
