//! Text inside the framework's own tags.

/// The text with `&`, `<` and `>` escaped, so that it cannot close the block it stands in.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
