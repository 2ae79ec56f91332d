//! Web pages to Markdown.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use htmd::element_handler::Handlers;
use htmd::options::{BulletListMarker, HrStyle, Options};
use htmd::{Element, HtmlToMarkdown, Node};

use crate::convert::Converted;
use crate::encoding::{decode_label, decode_or_lossy};
use crate::error::ConvertError;
use crate::html_table::with_tables;
use crate::kind::DocumentKind;

/// Elements without readable text.
const DROPPED: [&str; 12] = [
    "script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "audio", "video", "input", "select",
];
/// Deeper trees are flattened: the Markdown writer recurses, and a stack overflow cannot be caught.
const MAX_DEPTH: usize = 200;

pub(crate) fn convert(bytes: &[u8]) -> Result<Converted, ConvertError> {
    let (markdown, title) = to_markdown(&decode(bytes));
    let mut converted = Converted::new(DocumentKind::Html, markdown);
    converted.title = title;
    Ok(converted)
}

/// Markdown of an HTML text, without scripts, styles and embedded media.
#[must_use]
pub fn html_to_markdown(html: &str) -> String {
    crate::markdown::tidy(&to_markdown(html).0).trim_end().to_owned()
}

/// The Markdown and the `<title>`.
pub(crate) fn to_markdown(html: &str) -> (String, Option<String>) {
    // Asked before parsing too: the parser's time grows with the square of the depth.
    if open_tags_exceed(html, 2 * MAX_DEPTH) {
        return (strip_tags(html), None);
    }
    let title = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&title);
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        hr_style: HrStyle::Dashes,
        ..Options::default()
    };
    let converter = with_tables(HtmlToMarkdown::builder())
        .options(options)
        .skip_tags(DROPPED.to_vec())
        .add_handler(vec!["title"], move |handlers: &dyn Handlers, element: Element<'_>| {
            let text = handlers.walk_children(element.node).content;
            seen.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
            None
        })
        // A data: URL is a picture's bytes; as text it is noise that can be megabytes long.
        .add_handler(vec!["img"], |handlers: &dyn Handlers, element: Element<'_>| {
            let inline = element.attrs.iter().any(|attr| &attr.name.local == "src" && attr.value.starts_with("data:"));
            if inline { None } else { handlers.fallback(element) }
        })
        .build();
    let Ok(tree) = converter.html_to_tree(html) else { return (String::new(), None) };
    if depth_exceeds(&tree, MAX_DEPTH) {
        return (strip_tags(html), None);
    }
    let markdown = converter.tree_to_markdown(&tree);
    let title = title.lock().unwrap_or_else(PoisonError::into_inner).take();
    (markdown, title.filter(|title| !title.trim().is_empty()))
}

/// By byte order mark, by `<meta charset>`, by guess.
fn decode(bytes: &[u8]) -> String {
    let marked = encoding_rs::Encoding::for_bom(bytes).is_some();
    if !marked && std::str::from_utf8(bytes).is_err() {
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(2048)]).to_ascii_lowercase();
        let label = head.split("charset=").nth(1).map(|rest| {
            let rest = rest.trim_start_matches(['"', '\'', ' ']);
            rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_:".contains(*c)).collect::<String>()
        });
        if let Some(text) = label.and_then(|label| decode_label(bytes, &label)) {
            return text;
        }
    }
    decode_or_lossy(bytes)
}

/// Whether more than `limit` elements are open at once, by a look at the tags alone.
fn open_tags_exceed(html: &str, limit: usize) -> bool {
    /// Elements that have no end or end by themselves.
    const IMPLIED: [&str; 34] = [
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
        "p", "li", "td", "th", "tr", "dt", "dd", "option", "tbody", "thead", "tfoot", "colgroup", "rt", "rp", "html",
        "head", "body", "caption", "optgroup", "frame",
    ];
    let mut open = 0_usize;
    for tag in html.split('<').skip(1) {
        let (closing, rest) = tag.strip_prefix('/').map_or((false, tag), |rest| (true, rest));
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        let name = &rest[..end];
        if name.is_empty() || IMPLIED.iter().any(|implied| name.eq_ignore_ascii_case(implied)) {
            continue;
        }
        open = if closing { open.saturating_sub(1) } else { open + 1 };
        if open > limit {
            return true;
        }
    }
    false
}

fn depth_exceeds(tree: &Rc<Node>, limit: usize) -> bool {
    let mut stack = vec![(Rc::clone(tree), 0_usize)];
    while let Some((node, depth)) = stack.pop() {
        if depth > limit {
            return true;
        }
        stack.extend(node.children.borrow().iter().map(|child| (Rc::clone(child), depth + 1)));
    }
    false
}

/// The text between tags, one line per tag: for pages nested too deeply to be pages.
fn strip_tags(html: &str) -> String {
    // ASCII lower case keeps byte positions.
    let lower = html.to_ascii_lowercase();
    let mut out = String::new();
    let mut at = 0;
    while let Some(open) = lower[at..].find('<') {
        out.push_str(&html[at..at + open]);
        out.push('\n');
        at += open;
        let hidden = ["script", "style"].into_iter().find(|tag| lower[at + 1..].starts_with(tag));
        if let Some(tag) = hidden {
            at = lower[at..].find(&format!("</{tag}")).map_or(html.len(), |end| at + end);
        }
        at = lower[at..].find('>').map_or(html.len(), |close| at + close + 1);
    }
    out.push_str(&html[at..]);
    out
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn headings_tables_links_and_lists_survive_and_scripts_do_not() {
        let html = "<html><head><title> Sales  review </title><style>p{}</style></head><body><h1>Why</h1>\
            <script>alert(1)</script><p>See <a href=\"https://example.org\">this</a>.</p><ul><li>one<li>two</ul>\
            <table><tr><th>Region</th><th>Units</th></tr><tr><td>北京</td><td>12</td></tr></table>\
            <img src=\"data:image/png;base64,AAAA\"><img alt=\"x\" src=\"a.png\"></body></html>";
        let (markdown, title) = to_markdown(html);
        assert_eq!(title.as_deref().map(str::trim), Some("Sales review"));
        assert_eq!(
            markdown,
            "# Why\n\nSee [this](https://example.org).\n\n- one\n- two\n\n\
             | Region | Units |\n| --- | --- |\n| 北京 | 12 |\n\n![x](a.png)"
        );
    }

    #[test]
    fn the_declared_charset_is_used() {
        let mut bytes = b"<html><head><meta charset=\"gb2312\"></head><body>".to_vec();
        bytes.extend_from_slice(&encoding_rs::GBK.encode("销售").0);
        assert!(decode(&bytes).ends_with("销售"));
    }

    #[test]
    fn long_sloppy_pages_are_not_taken_for_deep_ones() {
        let html = format!("<ul>{}</ul><table>{}</table>", "<li>item<br>".repeat(2000), "<tr><td>x<td>y".repeat(2000));
        let markdown = html_to_markdown(&html);
        assert_eq!(markdown.matches("- item").count(), 2000);
        assert!(markdown.matches("| x | y |").count() >= 1999, "{}", &markdown[24_000..]);
    }

    #[test]
    fn a_page_nested_a_million_deep_gives_its_text_and_does_not_overflow_the_stack() {
        let html = format!("{}deep<script>no</script>er", "<div>".repeat(200_000));
        let markdown = html_to_markdown(&html);
        assert_eq!(markdown.split_whitespace().collect::<Vec<_>>(), ["deep", "er"]);
    }
}
