//! What a file is to a browser.

/// Media type of a file, by its name; without a known one, text unless `start` has a NUL.
pub(super) fn media_type(name: &str, start: &[u8]) -> String {
    let guessed = mime_guess::from_path(name).first_raw();
    let kind = guessed.unwrap_or(if start.contains(&0) { "application/octet-stream" } else { "text/plain" });
    if kind.starts_with("text/") { format!("{kind}; charset=utf-8") } else { kind.to_owned() }
}

/// Whether a browser would run what is in it, in the name of the site it comes from.
pub fn is_active(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or(media_type).trim();
    let known = ["text/html", "text/xml", "application/xml", "text/xsl", "application/xslt+xml", "message/rfc822"];
    known.contains(&essence) || essence.ends_with("+xml")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn names_decide_and_what_runs_is_known() {
        assert_eq!(media_type("a.md", b"x"), "text/markdown; charset=utf-8");
        assert_eq!(media_type("a.PNG", b"x"), "image/png");
        assert_eq!(media_type("Makefile", b"all:"), "text/plain; charset=utf-8");
        assert_eq!(media_type("core", b"\x7fELF\0"), "application/octet-stream");
        for name in ["a.html", "a.htm", "a.xhtml", "a.svg", "a.xml", "a.xsl", "a.rss", "a.atom", "a.mht"] {
            assert!(is_active(&media_type(name, b"<")), "{name} {}", media_type(name, b"<"));
        }
        for name in ["a.pdf", "a.png", "a.txt", "a.json", "a.js"] {
            assert!(!is_active(&media_type(name, b"<")), "{name}");
        }
    }
}
