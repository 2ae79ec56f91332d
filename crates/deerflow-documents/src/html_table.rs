//! Tables of web pages: with or without heading cells, with spans, and layout tables that are no tables.
//!
//! The Markdown writer hands out strings, not trees, so cells and rows pass through it between control characters,
//! which page text cannot hold in a way that matters: they are dropped from the result.

use std::fmt::Write as _;

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::{Element, HtmlToMarkdownBuilder};

use crate::csv_table::MAX_COLUMNS;
use crate::markdown::{one_line, table};

const CELL: char = '\u{1}';
const CONTENT: char = '\u{2}';
const END: char = '\u{3}';
const ROW: char = '\u{4}';
const CAPTION: char = '\u{5}';
/// Most rows one cell may span.
const MAX_SPAN: usize = 1000;
/// A longer cell is a part of a page, not of a table.
const MAX_CELL_CHARS: usize = 800;

/// Adds the handlers for everything inside `<table>`.
pub(crate) fn with_tables(builder: HtmlToMarkdownBuilder) -> HtmlToMarkdownBuilder {
    builder
        .add_handler(vec!["td", "th"], |handlers: &dyn Handlers, element: Element<'_>| {
            let (across, down) = (span(&element, "colspan"), span(&element, "rowspan"));
            let content = handlers.walk_children(element.node).content;
            result(format!("{CELL}{across},{down}{CONTENT}{}{END}", content.trim()))
        })
        .add_handler(vec!["tr"], |handlers: &dyn Handlers, element: Element<'_>| {
            result(format!("{ROW}{}", handlers.walk_children(element.node).content))
        })
        .add_handler(vec!["thead", "tbody", "tfoot"], |handlers: &dyn Handlers, element: Element<'_>| {
            result(handlers.walk_children(element.node).content)
        })
        .add_handler(vec!["caption"], |handlers: &dyn Handlers, element: Element<'_>| {
            result(format!("{CAPTION}{}{END}", handlers.walk_children(element.node).content.trim()))
        })
        .add_handler(vec!["table"], |handlers: &dyn Handlers, element: Element<'_>| {
            result(format!("\n\n{}\n\n", render(&handlers.walk_children(element.node).content)))
        })
}

#[expect(clippy::unnecessary_wraps, reason = "the writer's handlers return an option")]
fn result(content: String) -> Option<HandlerResult> {
    Some(content.into())
}

fn span(element: &Element<'_>, name: &str) -> usize {
    let value =
        element.attrs.iter().find(|attr| &*attr.name.local == name).and_then(|attr| attr.value.trim().parse().ok());
    value.unwrap_or(1_usize).clamp(1, MAX_SPAN)
}

fn render(content: &str) -> String {
    let mut parts = content.split(ROW);
    let mut out = String::new();
    let caption = parts.next().and_then(|head| head.split_once(CAPTION)).and_then(|(_, rest)| rest.split_once(END));
    if let Some((caption, _)) = caption {
        let _ = write!(out, "{}\n\n", one_line(caption));
    }
    let rows = grid(parts);
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    if columns >= 2 && rows.len() >= 2 && rows.iter().flatten().all(|cell| is_cell(cell)) {
        out.push_str(&table(&rows));
    } else {
        let cells: Vec<&str> = rows.iter().flatten().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
        out.push_str(&cells.join("\n\n"));
    }
    out
}

/// Rows of cells with every span filled by blank ones.
fn grid<'a>(rows: impl Iterator<Item = &'a str>) -> Vec<Vec<String>> {
    let mut out: Vec<Vec<String>> = Vec::new();
    // For each column, how many rows from here on a cell from above covers.
    let mut covered = [0_usize; MAX_COLUMNS];
    for row in rows {
        let mut cells: Vec<String> = Vec::new();
        let mut next = covered.map(|rows| rows.saturating_sub(1));
        for cell in row.split(CELL).skip(1) {
            let Some((spans, rest)) = cell.split_once(CONTENT) else { continue };
            let (across, down) = spans.split_once(',').unwrap_or(("1", "1"));
            let (across, down): (usize, usize) = (across.parse().unwrap_or(1), down.parse().unwrap_or(1));
            while covered.get(cells.len()).is_some_and(|rows| *rows > 0) {
                cells.push(String::new());
            }
            let text = rest.split(END).next().unwrap_or_default();
            for index in 0..across.min(MAX_COLUMNS - cells.len().min(MAX_COLUMNS)) {
                next[cells.len()] = down - 1;
                cells.push(if index == 0 { text.to_owned() } else { String::new() });
            }
        }
        covered = next;
        if !cells.is_empty() {
            out.push(cells);
        }
    }
    out
}

fn is_cell(text: &str) -> bool {
    let block = |line: &str| {
        line.starts_with("| ") || line.starts_with("# ") || line.starts_with("## ") || line.starts_with("```")
    };
    text.chars().count() <= MAX_CELL_CHARS && !text.lines().any(block)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use crate::html_to_markdown;

    #[test]
    fn a_table_without_heading_cells_is_a_table() {
        let html = "<table><tr><td>Region<td>Units<tr><td>North<td>1|2</table>";
        assert_eq!(html_to_markdown(html), "| Region | Units |\n| --- | --- |\n| North | 1\\|2 |");
    }

    #[test]
    fn row_headings_captions_and_spans_keep_their_places() {
        let html = "<table><caption>By region</caption><thead><tr><th rowspan=2>Region<th colspan=2>Units</tr>\
            <tr><th>Q1<th>Q2</tr></thead><tbody><tr><th>North<td><p>1</p><p>one</p><td>2</tr></tbody></table>";
        assert_eq!(
            html_to_markdown(html),
            "By region\n\n| Region | Units |  |\n| --- | --- | --- |\n|  | Q1 | Q2 |\n| North | 1<br>one | 2 |"
        );
    }

    #[test]
    fn a_layout_table_is_the_text_in_it_and_the_table_inside_survives() {
        let html =
            "<table><tr><td><h1>Shop</h1><td>menu<tr><td><table><tr><td>a<td>b<tr><td>1<td>2</table><td>ads</table>";
        assert_eq!(html_to_markdown(html), "# Shop\n\nmenu\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\nads");
    }

    #[test]
    fn absurd_spans_are_cut() {
        let html = "<table><tr><td colspan=999999 rowspan=999999>a<td>b<tr><td>c<td>d</table>";
        assert!(html_to_markdown(html).lines().next().is_some_and(|line| line.matches('|').count() == 201));
    }
}
