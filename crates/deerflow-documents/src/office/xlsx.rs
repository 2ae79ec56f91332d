//! Excel workbooks: one table per sheet, cells streamed so that a sheet's claimed size costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Cursor;

use calamine::{Data, DataRef, ExcelDateTime, Reader, SheetVisible, Xls, Xlsx};

use super::core_title;
use crate::archive::Package;
use crate::convert::{Budget, Converted};
use crate::csv_table::{MAX_COLUMNS, MAX_ROWS};
use crate::error::ConvertError;
use crate::kind::{DocumentKind, OLE_MAGIC};
use crate::markdown::table;
use crate::marks::sheet_mark;

/// Cells kept over all sheets.
const MAX_CELLS: usize = 500_000;

pub(crate) fn convert(bytes: &[u8], budget: Budget<'_>) -> Result<Converted, ConvertError> {
    let mut converted = Converted::new(DocumentKind::Xlsx, String::new());
    let mut cells = MAX_CELLS;
    if bytes.starts_with(&OLE_MAGIC) {
        let mut book = Xls::new(Cursor::new(bytes)).map_err(|error| match error {
            calamine::XlsError::Password => ConvertError::Encrypted,
            other => damaged(&other),
        })?;
        for (name, visible) in sheets(book.sheets_metadata()) {
            budget.check_time()?;
            let mut sheet = Sheet::default();
            let range = book.worksheet_range(&name).map_err(|error| damaged(&error))?;
            let (row, column) = range.start().unwrap_or_default();
            for (r, c, value) in range.used_cells() {
                sheet.add(row as usize + r, column as usize + c, old_text(value), &mut cells);
            }
            sheet.write(&name, visible, &mut converted);
        }
    } else {
        let mut package = Package::open(bytes, budget.limits)?;
        // The workbook reader opens the archive by itself.
        package.measure()?;
        converted.title = core_title(&mut package);
        let images = package.names().iter().filter(|name| name.starts_with("xl/media/")).count();
        let charts = package.names().iter().filter(|name| name.starts_with("xl/charts/chart")).count();
        let mut book = Xlsx::new(Cursor::new(bytes)).map_err(|error| match error {
            calamine::XlsxError::Password => ConvertError::Encrypted,
            other => damaged(&other),
        })?;
        for (name, visible) in sheets(book.sheets_metadata()) {
            budget.check_time()?;
            let sheet = read_sheet(&mut book, &name, budget, &mut cells)?;
            sheet.write(&name, visible, &mut converted);
        }
        for (count, what) in [(images, "image(s)"), (charts, "chart(s)")] {
            if count > 0 {
                converted.warnings.push(format!("{count} {what} in the workbook are not part of the text"));
            }
        }
    }
    Ok(converted)
}

fn sheets(metadata: &[calamine::Sheet]) -> Vec<(String, bool)> {
    metadata.iter().map(|sheet| (sheet.name.clone(), sheet.visible == SheetVisible::Visible)).collect()
}

fn read_sheet(
    book: &mut Xlsx<Cursor<&[u8]>>,
    name: &str,
    budget: Budget<'_>,
    cells: &mut usize,
) -> Result<Sheet, ConvertError> {
    let mut sheet = Sheet::default();
    // Chart sheets have no cells; that is not damage.
    let Ok(mut reader) = book.worksheet_cells_reader(name) else { return Ok(sheet) };
    let mut seen = 0_u32;
    while let Some(cell) = reader.next_cell_with_formula().map_err(|error| damaged(&error))? {
        seen = seen.wrapping_add(1);
        if seen.is_multiple_of(65_536) {
            budget.check_time()?;
        }
        let (row, column) = cell.pos;
        let mut text = new_text(&cell.value);
        // A program that wrote the formula but never computed it leaves no value: the formula is all there is.
        if text.is_empty()
            && let Some(formula) = &cell.formula
            && !formula.is_empty()
        {
            text = format!("={formula}");
        }
        sheet.add(row as usize, column as usize, text, cells);
    }
    Ok(sheet)
}

/// Cells of one sheet, sparse, within the limits.
#[derive(Debug, Default)]
struct Sheet {
    rows: BTreeMap<usize, BTreeMap<usize, String>>,
    last_row: usize,
    cut: bool,
}

impl Sheet {
    fn add(&mut self, row: usize, column: usize, text: String, cells: &mut usize) {
        if text.is_empty() {
            return;
        }
        self.last_row = self.last_row.max(row);
        if *cells == 0 || (self.rows.len() > MAX_ROWS && !self.rows.contains_key(&row)) {
            self.cut = true;
            return;
        }
        *cells -= 1;
        self.rows.entry(row).or_default().insert(column, text);
    }

    fn write(mut self, name: &str, visible: bool, converted: &mut Converted) {
        if self.rows.is_empty() {
            return;
        }
        let out = &mut converted.markdown;
        let title = name.replace(['\n', '\r'], " ");
        let hidden = if visible { "" } else { " (hidden)" };
        let _ = write!(out, "{}\n\n## {title}{hidden}\n\n", sheet_mark(name));
        let used: BTreeSet<usize> = self.rows.values().flat_map(|row| row.keys().copied()).collect();
        let (first, last) = (used.first().copied().unwrap_or(0), used.last().copied().unwrap_or(0));
        // Blank columns are kept as the author's layout, unless there are too many: then only used ones count.
        let (columns, wide): (Vec<usize>, bool) = if last - first < MAX_COLUMNS {
            ((first..=last).collect(), false)
        } else {
            (used.iter().copied().take(MAX_COLUMNS).collect(), used.len() > MAX_COLUMNS)
        };
        let rows: Vec<Vec<String>> = self
            .rows
            .values_mut()
            .map(|row| columns.iter().map(|column| row.remove(column).unwrap_or_default()).collect())
            .collect();
        out.push_str(&table(&rows));
        out.push_str("\n\n");
        if self.cut {
            let notice = format!("sheet `{title}`: the first {} of {} rows are shown", rows.len(), self.last_row + 1);
            let _ = write!(out, "[table cut: {notice}]\n\n");
            converted.warnings.push(notice);
        }
        if wide {
            converted.warnings.push(format!("sheet `{title}`: only the first {MAX_COLUMNS} columns are shown"));
        }
    }
}

fn new_text(value: &DataRef<'_>) -> String {
    match value {
        DataRef::Empty => String::new(),
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => float_text(*number),
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text.clone(),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(value) => bool_text(*value).to_owned(),
        DataRef::DateTime(value) => date_text(value),
        DataRef::Error(error) => error.to_string(),
    }
}

fn old_text(value: &Data) -> String {
    match value {
        Data::Empty => String::new(),
        Data::Int(number) => number.to_string(),
        Data::Float(number) => float_text(*number),
        Data::String(text) | Data::DateTimeIso(text) | Data::DurationIso(text) => text.clone(),
        Data::Bool(value) => bool_text(*value).to_owned(),
        Data::DateTime(value) => date_text(value),
        Data::Error(error) => error.to_string(),
    }
}

fn bool_text(value: bool) -> &'static str {
    if value { "TRUE" } else { "FALSE" }
}

/// Excel keeps 15 digits: `0.1 + 0.2` is `0.3`.
fn float_text(number: f64) -> String {
    let rounded: f64 = format!("{number:.14e}").parse().unwrap_or(number);
    rounded.to_string()
}

fn date_text(value: &ExcelDateTime) -> String {
    if value.is_duration() {
        #[expect(clippy::cast_possible_truncation, reason = "a cell's duration in seconds; `as` saturates")]
        let seconds = (value.as_f64() * 86_400.0).round() as i64;
        let sign = if seconds < 0 { "-" } else { "" };
        let seconds = seconds.unsigned_abs();
        return format!("{sign}{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, _) = value.to_ymd_hms_milli();
    let time =
        if second == 0 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{second:02}") };
    if (0.0..1.0).contains(&value.as_f64()) {
        return time;
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    if (hour, minute, second) == (0, 0, 0) { date } else { format!("{date} {time}") }
}

fn damaged(error: &dyn std::fmt::Display) -> ConvertError {
    ConvertError::Damaged { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use calamine::ExcelDateTimeType;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn values_read_as_people_see_them() {
        let date = |value, kind| date_text(&ExcelDateTime::new(value, kind, false));
        assert_eq!(float_text(0.1 + 0.2), "0.3");
        assert_eq!(float_text(1_240_000.0), "1240000");
        assert_eq!(date(45_943.0, ExcelDateTimeType::DateTime), "2025-10-13");
        assert_eq!(date(45_943.5, ExcelDateTimeType::DateTime), "2025-10-13 12:00");
        assert_eq!(date(0.25, ExcelDateTimeType::DateTime), "06:00");
        assert_eq!(date(1.5, ExcelDateTimeType::TimeDelta), "36:00:00");
    }

    #[test]
    fn a_cell_in_the_last_column_does_not_make_a_million_columns() {
        let mut sheet = Sheet::default();
        let mut cells = 1000;
        for column in (0..600).step_by(2) {
            sheet.add(0, column, "a".to_owned(), &mut cells);
        }
        sheet.add(1_048_575, 16_383, "z".to_owned(), &mut cells);
        let mut converted = Converted::new(DocumentKind::Xlsx, String::new());
        sheet.write("S", true, &mut converted);
        assert_eq!(converted.markdown.lines().nth(4).map(|line| line.matches('|').count()), Some(201));
        assert_eq!(converted.warnings, ["sheet `S`: only the first 200 columns are shown"]);
    }

    #[test]
    fn a_sheet_over_the_cell_limit_is_cut_with_a_notice() {
        let mut sheet = Sheet::default();
        let mut cells = 2;
        (0..3).for_each(|row| sheet.add(row, 1, format!("v{row}"), &mut cells));
        let mut converted = Converted::new(DocumentKind::Xlsx, String::new());
        sheet.write("S", false, &mut converted);
        assert!(
            converted
                .markdown
                .contains("## S (hidden)\n\n| v0 |\n| --- |\n| v1 |\n\n[table cut: sheet `S`: the first 2 of 3 rows")
        );
    }
}
