//! Tables by position: neighbouring lines whose segments stand in the same columns.

use super::glyphs::Rule;
use super::lines::{Line, Segment, is_wide};

/// Rows of a table may be this far apart, in em of their text.
const MAX_ROW_GAP: f64 = 3.2;
/// A line this close below (in em) continues a cell rather than opening a row.
const CONTINUATION: f64 = 1.4;
/// Columns are at least this far apart, in points.
const MIN_GUTTER: f64 = 2.0;
/// Average characters from which a column is running text.
const PROSE_CHARS: usize = 25;

/// A table found in `lines[start..end]`.
#[derive(Debug, PartialEq)]
pub(super) struct Table {
    pub(super) end: usize,
    pub(super) rows: Vec<Vec<String>>,
}

/// The table that begins at `lines[start]`, if one does.
pub(super) fn at(lines: &[Line], start: usize, rules: &[Rule]) -> Option<Table> {
    if lines[start].segments.len() < 2 {
        return None;
    }
    let mut end = start + 1;
    let mut columns = columns(&lines[start..end]);
    let mut width = lines[start].segments.len();
    let mut next = end;
    while next < lines.len() {
        let (previous, line) = (&lines[next - 1], &lines[next]);
        if line.y - previous.y > MAX_ROW_GAP * line.size.max(previous.size) {
            break;
        }
        let grown = self::columns(&lines[start..=next]);
        if grown.len() < width.max(line.segments.len()) || grown.len() > columns.len().max(width) + 2 {
            break;
        }
        next += 1;
        // A line with one segment belongs only if the table goes on below it, or a rule closes the table there.
        if line.segments.len() > 1 || is_ruled_below(line, lines.get(next), rules, &grown) {
            (end, columns, width) = (next, grown, width.max(line.segments.len()));
        }
    }
    let columns = self::columns(&lines[start..end]);
    let block = &lines[start..end];
    if !is_table(block, &columns, rules) {
        return None;
    }
    Some(Table { end, rows: rows(block, &columns, rules) })
}

/// The horizontal extents that no segment bridges.
fn columns(lines: &[Line]) -> Vec<(f64, f64)> {
    let mut spans: Vec<(f64, f64)> =
        lines.iter().flat_map(|line| line.segments.iter().map(|segment| (segment.x0, segment.x1))).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut columns: Vec<(f64, f64)> = Vec::new();
    for (x0, x1) in spans {
        match columns.last_mut() {
            Some(last) if x0 < last.1 + MIN_GUTTER => last.1 = last.1.max(x1),
            _ => columns.push((x0, x1)),
        }
    }
    columns
}

fn column_of(columns: &[(f64, f64)], segment: &Segment) -> usize {
    let middle = f64::midpoint(segment.x0, segment.x1);
    columns.iter().rposition(|(x0, _)| *x0 <= middle).unwrap_or(0)
}

fn is_ruled_below(line: &Line, next: Option<&Line>, rules: &[Rule], columns: &[(f64, f64)]) -> bool {
    let limit = next.map_or(line.y + 1.5 * line.size, |next| next.y.min(line.y + 1.5 * line.size));
    rules.iter().any(|rule| rule.y > line.y && rule.y < limit && spans(rule, columns))
}

/// Whether the rule runs over the table's first column at least: grids are often drawn cell by cell.
fn spans(rule: &Rule, columns: &[(f64, f64)]) -> bool {
    columns.first().is_some_and(|(x0, x1)| rule.x0 <= x0 + 6.0 && rule.x1 >= x1 - 6.0)
}

fn is_table(block: &[Line], columns: &[(f64, f64)], rules: &[Rule]) -> bool {
    let full = block.iter().filter(|line| line.segments.len() >= 2).count();
    let ruled = rule_positions(block, columns, rules).len() >= 2;
    let wide_enough = match columns.len() {
        0 | 1 => return false,
        2 => full >= if ruled { 2 } else { 3 },
        _ => full >= 2,
    };
    wide_enough && !is_list(block, columns) && (ruled || !is_prose(block, columns))
}

/// Bullets or numbers in the first column are a list, not a table.
fn is_list(block: &[Line], columns: &[(f64, f64)]) -> bool {
    columns.len() == 2
        && block.iter().filter(|line| line.segments.len() > 1).all(|line| {
            let mark = line.segments[0].text.trim();
            let number = mark.trim_end_matches(['.', ')']);
            let numbered = number.len() < mark.len() && number.chars().count() <= 3;
            numbered || (mark.chars().count() <= 2 && !mark.chars().any(char::is_alphanumeric))
        })
}

/// Columns of running text: every column is mostly filled with long lines.
fn is_prose(block: &[Line], columns: &[(f64, f64)]) -> bool {
    columns.iter().enumerate().all(|(index, (x0, x1))| {
        let segments: Vec<&Segment> =
            block.iter().flat_map(|line| &line.segments).filter(|s| column_of(columns, s) == index).collect();
        let count = segments.len().max(1);
        let chars: usize = segments.iter().map(|segment| segment.text.chars().count()).sum();
        let filled: f64 = segments.iter().map(|segment| segment.x1 - segment.x0).sum();
        chars / count >= PROSE_CHARS && filled / count as f64 >= 0.7 * (x1 - x0)
    })
}

/// Heights of the rules inside and around the block, top to bottom.
fn rule_positions(block: &[Line], columns: &[(f64, f64)], rules: &[Rule]) -> Vec<f64> {
    let (Some(first), Some(last)) = (block.first(), block.last()) else { return Vec::new() };
    let (top, bottom) = (first.y - 2.0 * first.size, last.y + 1.5 * last.size);
    let inside = rules.iter().filter(|rule| rule.y > top && rule.y < bottom && spans(rule, columns));
    let mut found: Vec<f64> = inside.map(|rule| rule.y).collect();
    found.sort_by(f64::total_cmp);
    found.dedup_by(|a, b| (*a - *b).abs() < 2.5);
    found
}

fn rows(block: &[Line], columns: &[(f64, f64)], rules: &[Rule]) -> Vec<Vec<String>> {
    let rules = rule_positions(block, columns, rules);
    let between = |a: f64, b: f64| rules.iter().any(|y| *y > a && *y < b);
    // A grid tells rows exactly; a rule under the head alone does not.
    let gaps = block.windows(2).filter(|pair| between(pair[0].y, pair[1].y)).count();
    let grid = gaps * 2 >= block.len().saturating_sub(1) || (gaps >= 2 && gaps * 4 >= block.len());
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut previous: Option<&Line> = None;
    for line in block {
        let cells: Vec<(usize, &str)> =
            line.segments.iter().map(|segment| (column_of(columns, segment), segment.text.as_str())).collect();
        let continues = previous.is_some_and(|above| {
            if grid && rules.len() > 1 {
                return !between(above.y, line.y);
            }
            let close = line.y - above.y <= CONTINUATION * line.size;
            let partial = cells.iter().all(|(column, _)| *column != 0) || cells.len() == 1;
            close && partial && cells.len() < columns.len() && !between(above.y, line.y)
        });
        if !continues || rows.is_empty() {
            rows.push(vec![String::new(); columns.len()]);
        }
        if let Some(row) = rows.last_mut() {
            for (column, text) in cells {
                append(&mut row[column], text);
            }
        }
        previous = Some(line);
    }
    rows
}

fn append(cell: &mut String, text: &str) {
    let joined = cell.chars().next_back().is_some_and(is_wide) && text.chars().next().is_some_and(is_wide);
    if !cell.is_empty() && !joined {
        cell.push(' ');
    }
    cell.push_str(text);
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::lines::{build, tests::set};
    use super::*;

    fn lines(rows: &[&[(&str, f64)]], pitch: f64) -> Vec<Line> {
        let glyphs = rows.iter().enumerate().flat_map(|(index, cells)| {
            cells.iter().flat_map(move |(text, x)| set(text, *x, 20.0 + pitch * index as f64, 10.0)).collect::<Vec<_>>()
        });
        build(glyphs.collect())
    }

    #[test]
    fn aligned_segments_are_a_table_and_blank_cells_stay_blank() {
        let rows: &[&[(&str, f64)]] = &[
            &[("Region", 10.0), ("Q1", 100.0), ("Q2", 160.0)],
            &[("North", 10.0), ("1,200", 90.0), ("980", 150.0)],
            &[("South", 10.0), ("410", 160.0)],
            &[("A line of text that runs across all columns of the table", 10.0)],
        ];
        let table = at(&lines(rows, 15.0), 0, &[]).expect("a table");
        assert_eq!(table.end, 3);
        assert_eq!(table.rows, [["Region", "Q1", "Q2"], ["North", "1,200", "980"], ["South", "", "410"]]);
    }

    #[test]
    fn a_wrapped_cell_joins_its_row() {
        let rows: &[&[(&str, f64)]] = &[
            &[("Cause", 10.0), ("Detail", 100.0), ("Units", 300.0)],
            &[("Price", 10.0), ("raised in March", 100.0), ("-300", 300.0)],
            &[("by 8 percent", 100.0)],
            &[("Stock", 10.0), ("none left", 100.0), ("-120", 300.0)],
        ];
        let table = at(&lines(rows, 12.0), 0, &[]).expect("a table");
        assert_eq!(table.rows[1], ["Price", "raised in March by 8 percent", "-300"]);
        assert_eq!(table.rows.len(), 3);
    }

    #[test]
    fn a_grid_of_rules_tells_rows_even_when_the_first_column_wraps() {
        let rows: &[&[(&str, f64)]] = &[
            &[("Cause", 10.0), ("Units", 150.0)],
            &[("Price raised", 10.0), ("-300", 150.0)],
            &[("in March", 10.0)],
            &[("Stock-outs", 10.0), ("-120", 150.0)],
        ];
        let rule = |y| Rule { x0: 5.0, x1: 200.0, y };
        let rules = [rule(10.0), rule(24.0), rule(48.0), rule(60.0)];
        let table = at(&lines(rows, 12.0), 0, &rules).expect("a table");
        assert_eq!(table.rows, [["Cause", "Units"], ["Price raised in March", "-300"], ["Stock-outs", "-120"]]);
    }

    #[test]
    fn lists_and_columns_of_prose_are_no_tables() {
        let list: &[&[(&str, f64)]] = &[
            &[("1.", 10.0), ("first point", 40.0)],
            &[("2.", 10.0), ("second point", 40.0)],
            &[("3.", 10.0), ("third point", 40.0)],
        ];
        assert_eq!(at(&lines(list, 12.0), 0, &[]), None);
        let left = "the sales of the north went down a";
        let right = "while the south held on to what it";
        let row = [(left, 10.0), (right, 220.0)];
        let prose: Vec<&[(&str, f64)]> = vec![&row; 6];
        assert_eq!(at(&lines(&prose, 12.0), 0, &[]), None);
    }
}
