//! Reading order on pages set in columns: the left column first, then the right.

use super::lines::{Line, Segment};

/// Lines each side must have.
const MIN_LINES: usize = 3;
/// Share of a column's width that its lines fill on average, when it is running text.
const MIN_FILL: f64 = 0.55;
/// Characters a column's lines have on average.
const MIN_CHARS: usize = 18;
/// Columns in columns.
const MAX_DEPTH: usize = 3;

/// The lines as they are read: blocks, each from top to bottom. Lines that cross the gutter (titles, wide tables)
/// separate what is above from what is below.
pub(super) fn blocks(lines: Vec<Line>) -> Vec<Vec<Line>> {
    split(lines, 0)
}

fn split(lines: Vec<Line>, depth: usize) -> Vec<Vec<Line>> {
    let gutter = if depth < MAX_DEPTH { gutter(&lines) } else { None };
    let Some(gutter) = gutter else { return vec![lines] };
    let mut blocks: Vec<Vec<Line>> = Vec::new();
    let mut crossing: Vec<Line> = Vec::new();
    let mut band: Vec<Line> = Vec::new();
    for line in lines {
        if line.segments.iter().any(|segment| crosses(segment, gutter)) {
            flush_band(&mut blocks, std::mem::take(&mut band), gutter, depth);
            crossing.push(line);
        } else {
            if !crossing.is_empty() {
                blocks.push(std::mem::take(&mut crossing));
            }
            band.push(line);
        }
    }
    flush_band(&mut blocks, band, gutter, depth);
    if !crossing.is_empty() {
        blocks.push(crossing);
    }
    blocks
}

fn flush_band(blocks: &mut Vec<Vec<Line>>, band: Vec<Line>, gutter: f64, depth: usize) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for line in band {
        let (before, after): (Vec<Segment>, Vec<Segment>) =
            line.segments.into_iter().partition(|segment| segment.x1 <= gutter);
        for (side, segments) in [(&mut left, before), (&mut right, after)] {
            if !segments.is_empty() {
                side.push(Line { y: line.y, size: line.size, segments });
            }
        }
    }
    for side in [left, right] {
        if !side.is_empty() {
            blocks.extend(split(side, depth + 1));
        }
    }
}

fn crosses(segment: &Segment, x: f64) -> bool {
    segment.x0 < x && segment.x1 > x
}

/// The middle of the strip that separates two columns of running text, if the page has one.
fn gutter(lines: &[Line]) -> Option<f64> {
    if lines.len() < MIN_LINES {
        return None;
    }
    let segments: Vec<&Segment> = lines.iter().flat_map(|line| &line.segments).collect();
    let left = segments.iter().map(|segment| segment.x0).fold(f64::INFINITY, f64::min);
    let right = segments.iter().map(|segment| segment.x1).fold(f64::NEG_INFINITY, f64::max);
    let width = right - left;
    if !width.is_finite() || width < 100.0 {
        return None;
    }
    // The widest strip with the fewest crossings, in the middle of the text.
    let probe = |step: u32| {
        let x = left + width * (0.2 + 0.6 * f64::from(step) / 120.0);
        let crossing = segments.iter().filter(|segment| crosses(segment, x)).count();
        (x, is_prose(lines, x).then_some(crossing))
    };
    let probes: Vec<(f64, Option<usize>)> = (0..=120).map(probe).collect();
    let fewest = probes.iter().filter_map(|(_, crossing)| *crossing).min()?;
    let strips = probes.split(|(_, crossing)| *crossing != Some(fewest));
    let widest = strips.max_by_key(|strip| strip.len())?;
    Some(f64::midpoint(widest.first()?.0, widest.last()?.0))
}

/// Whether both sides of `x` are running text that mostly keeps to its side.
fn is_prose(lines: &[Line], x: f64) -> bool {
    let segments: Vec<&Segment> = lines.iter().flat_map(|line| &line.segments).collect();
    let crossing = lines.iter().filter(|line| line.segments.iter().any(|s| crosses(s, x))).count();
    if crossing * 5 > lines.len() * 2 {
        return false;
    }
    [true, false].into_iter().all(|before| {
        let side: Vec<&&Segment> = segments.iter().filter(|s| !crosses(s, x) && (s.x1 <= x) == before).collect();
        if side.len() < MIN_LINES {
            return false;
        }
        let from = side.iter().map(|s| s.x0).fold(f64::INFINITY, f64::min);
        let to = side.iter().map(|s| s.x1).fold(f64::NEG_INFINITY, f64::max);
        let filled: f64 = side.iter().map(|s| s.x1 - s.x0).sum::<f64>() / side.len() as f64;
        let chars: usize = side.iter().map(|s| s.text.chars().count()).sum::<usize>() / side.len();
        filled >= MIN_FILL * (to - from) && chars >= MIN_CHARS
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::lines::{build, tests::set};
    use super::*;

    fn texts(blocks: Vec<Vec<Line>>) -> Vec<Vec<String>> {
        blocks.into_iter().map(|block| block.iter().map(Line::text).collect()).collect()
    }

    #[test]
    fn the_left_column_is_read_before_the_right_one_below_a_title_across_both() {
        let mut glyphs = set("A title that runs over both columns of the page", 60.0, 10.0, 12.0);
        for row in 0..5 {
            let y = 40.0 + 12.0 * f64::from(row);
            glyphs.extend(set(&format!("left column text number {row}"), 10.0, y, 10.0));
            glyphs.extend(set(&format!("right column text number {row}"), 220.0, y + 4.0, 10.0));
        }
        let texts = texts(blocks(build(glyphs)));
        let column = |side: &str| (0..5).map(|row| format!("{side} column text number {row}")).collect::<Vec<_>>();
        assert_eq!(texts[1..], [column("left"), column("right")]);
    }

    #[test]
    fn a_table_is_not_two_columns() {
        let mut glyphs = Vec::new();
        for row in 0..6 {
            let y = 40.0 + 12.0 * f64::from(row);
            glyphs.extend(set("Region", 10.0, y, 10.0));
            glyphs.extend(set("1,200", 220.0, y, 10.0));
        }
        assert_eq!(blocks(build(glyphs)).len(), 1);
    }
}
