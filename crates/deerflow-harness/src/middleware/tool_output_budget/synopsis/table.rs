//! Tables of comma or tab separated values.

use super::{Kind, Synopsis, VALUE_CHARS, one_line};
use csv::{ReaderBuilder, StringRecord};

/// Rows looked at to tell whether it is a table.
const SAMPLE_ROWS: usize = 50;
/// Fewer rows as wide as the header may be chance.
const MIN_ROWS: usize = 5;
/// Columns shown.
const COLUMNS: usize = 18;

/// Rows under a header of plain names, at least five and most of them as wide as it. Prose has commas, and listings tabs.
pub(super) fn table(text: &str, delimiter: u8) -> Option<Synopsis> {
    if !text.as_bytes().contains(&delimiter) {
        return None;
    }
    let mut reader =
        ReaderBuilder::new().delimiter(delimiter).has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut rows = reader.records().filter(|row| !row.as_ref().is_ok_and(is_blank));
    let header = rows.next()?.ok()?;
    if header.len() < 2 || !header.iter().all(is_name) {
        return None;
    }
    let sample: Vec<StringRecord> = rows.by_ref().take(SAMPLE_ROWS).collect::<Result<_, _>>().ok()?;
    let alike = sample.iter().filter(|row| row.len() == header.len()).count();
    if alike < MIN_ROWS || alike * 2 < sample.len() {
        return None;
    }
    let total = sample.len() + rows.filter(Result::is_ok).count();

    let (kind, title, label) = match delimiter {
        b'\t' => (Kind::Tsv, "TSV table output", "TSV"),
        _ => (Kind::Csv, "CSV table output", "CSV"),
    };
    let mut synopsis =
        Synopsis::new(kind, title, format!("{label} table with {total} data rows and {} columns.", header.len()));
    let columns: Vec<String> = header.iter().take(COLUMNS).map(|name| one_line(name, VALUE_CHARS / 2)).collect();
    let more = if header.len() > COLUMNS { ", …" } else { "" };
    synopsis.structure.push(format!("columns: {}{more}", columns.join(", ")));
    if let Some(first) = sample.first() {
        let cells = columns.iter().zip(first).map(|(name, cell)| format!("{name}={}", one_line(cell, VALUE_CHARS)));
        synopsis.structure.push(format!("first data row: {}", cells.collect::<Vec<_>>().join(" | ")));
    }
    let odd = sample.len() - alike;
    if odd > 0 {
        synopsis.notable.push(format!("{odd} of the first {} data rows have another number of cells.", sample.len()));
    }
    Some(synopsis)
}

fn is_blank(row: &StringRecord) -> bool {
    row.iter().all(|cell| cell.trim().is_empty())
}

fn is_name(cell: &str) -> bool {
    let cell = cell.trim_end().trim_start_matches('\u{feff}');
    cell.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        && cell.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'))
}
