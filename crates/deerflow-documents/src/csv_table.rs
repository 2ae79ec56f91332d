//! Separated values to one Markdown table.

use crate::convert::Converted;
use crate::encoding::decode_text;
use crate::error::ConvertError;
use crate::kind::DocumentKind;
use crate::limits::Limits;
use crate::markdown::table;

/// Rows shown: a model reads a sample and the file itself is still there for a program.
pub(crate) const MAX_ROWS: usize = 5_000;
/// Columns shown.
pub(crate) const MAX_COLUMNS: usize = 200;

pub(crate) fn convert(bytes: &[u8], limits: &Limits) -> Result<Converted, ConvertError> {
    let Some(decoded) = decode_text(bytes) else {
        return Err(ConvertError::Damaged { reason: "it is binary, not text".to_owned() });
    };
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter(&decoded.text))
        .from_reader(decoded.text.as_bytes());
    let mut rows: Vec<Vec<String>> = Vec::new();
    let (mut total, mut wide, mut chars) = (0_usize, false, 0_usize);
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| ConvertError::Damaged { reason: error.to_string() })? {
        if record.iter().all(|field| field.trim().is_empty()) {
            continue;
        }
        total += 1;
        if rows.len() > MAX_ROWS || chars > limits.max_output_chars {
            continue;
        }
        wide |= record.len() > MAX_COLUMNS;
        let row: Vec<String> = record.iter().take(MAX_COLUMNS).map(str::to_owned).collect();
        chars += row.iter().map(String::len).sum::<usize>();
        rows.push(row);
    }
    let mut converted = Converted::new(DocumentKind::Csv, table(&rows));
    if decoded.lossy {
        converted.warnings.push(format!("some bytes are not valid {} and are shown as \u{FFFD}", decoded.encoding));
    }
    cut_notice(&mut converted, rows.len().saturating_sub(1), total.saturating_sub(1), wide);
    Ok(converted)
}

/// Says in the text and in a warning that rows or columns are missing.
fn cut_notice(converted: &mut Converted, shown: usize, total: usize, wide: bool) {
    if shown < total {
        let notice = format!("the first {shown} of {total} rows are shown");
        converted.markdown.push_str(&format!("\n\n[table cut: {notice}]"));
        converted.warnings.push(notice);
    }
    if wide {
        converted.warnings.push(format!("only the first {MAX_COLUMNS} columns are shown"));
    }
}

/// The separator that splits the first lines most evenly; a comma when none does.
fn delimiter(text: &str) -> u8 {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(20).collect();
    let score = |separator: char| {
        let counts: Vec<usize> = lines.iter().map(|line| outside_quotes(line, separator)).collect();
        let first = counts.first().copied().unwrap_or(0);
        let same = counts.iter().filter(|count| **count == first && first > 0).count();
        (same, first)
    };
    [',', '\t', ';', '|'].into_iter().rev().max_by_key(|separator| score(*separator)).map_or(b',', |c| c as u8)
}

fn outside_quotes(line: &str, separator: char) -> usize {
    let mut quoted = false;
    line.chars()
        .filter(|character| {
            quoted ^= *character == '"';
            !quoted && *character == separator
        })
        .count()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn markdown(text: &str) -> String {
        convert(text.as_bytes(), &Limits::default()).unwrap().markdown
    }

    #[test]
    fn the_separator_is_found_and_quotes_are_honoured() {
        let expected = "| region | note |\n| --- | --- |\n| Nord | a, \"b\"<br>c |";
        assert_eq!(markdown("region,note\nNord,\"a, \"\"b\"\"\nc\"\n"), expected);
        assert_eq!(markdown("a;b\n1,5;2,5\n"), "| a | b |\n| --- | --- |\n| 1,5 | 2,5 |");
        assert_eq!(markdown("a\tb\n1\t2\n\n"), "| a | b |\n| --- | --- |\n| 1 | 2 |");
        assert_eq!(markdown("only\none\n"), "| only |\n| --- |\n| one |");
    }

    #[test]
    fn a_huge_table_is_cut_with_a_notice() {
        let text: String = std::iter::once("n,m\n".to_owned()).chain((0..6000).map(|i| format!("{i},x\n"))).collect();
        let converted = convert(text.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(converted.warnings, ["the first 5000 of 6000 rows are shown"]);
        assert!(converted.markdown.ends_with("| 4999 | x |\n\n[table cut: the first 5000 of 6000 rows are shown]"));
    }
}
