//! Glyphs to lines, lines to segments: a segment is text without a gap wide enough to be a column's edge.

use unicode_normalization::UnicodeNormalization;

use super::glyphs::Glyph;

/// Baselines this far apart (in em) are still one line: superscripts, mixed fonts.
const SAME_LINE: f64 = 0.35;
/// A gap from here on (in em) is a space that was not written.
const SPACE: f64 = 0.17;
/// A gap from here on (in em) may be a column's edge.
const COLUMN_GAP: f64 = 1.05;

/// Text without wide gaps.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Segment {
    pub(super) text: String,
    pub(super) x0: f64,
    pub(super) x1: f64,
}

/// Segments on one baseline, left to right.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// The baseline, downward.
    pub(super) y: f64,
    /// The size of most of its glyphs, in points.
    pub(super) size: f64,
    pub(super) segments: Vec<Segment>,
}

impl Line {
    pub(super) fn text(&self) -> String {
        let texts: Vec<&str> = self.segments.iter().map(|segment| segment.text.as_str()).collect();
        texts.join(" ")
    }
}

/// Lines from top to bottom.
pub(super) fn build(mut glyphs: Vec<Glyph>) -> Vec<Line> {
    glyphs.sort_by(|a, b| a.y.total_cmp(&b.y));
    let mut lines = Vec::new();
    let mut current: Vec<Glyph> = Vec::new();
    for glyph in glyphs {
        let fits = current.last().is_none_or(|last| {
            let first = &current[0];
            let reach = SAME_LINE * glyph.size.max(first.size);
            (glyph.y - first.y).abs() <= reach && (glyph.y - last.y).abs() <= reach
        });
        if !fits {
            lines.extend(line(std::mem::take(&mut current)));
        }
        current.push(glyph);
    }
    lines.extend(line(current));
    lines
}

fn line(mut glyphs: Vec<Glyph>) -> Option<Line> {
    glyphs.sort_by(|a, b| a.x0.total_cmp(&b.x0));
    let size = common_size(&glyphs)?;
    let y = glyphs.iter().filter(|glyph| (glyph.size - size).abs() < 0.1).map(|glyph| glyph.y).next()?;
    let mut segments: Vec<Segment> = Vec::new();
    let mut blank = false;
    let mut last: Option<Glyph> = None;
    for glyph in glyphs {
        if glyph.text.trim().is_empty() {
            blank = true;
            continue;
        }
        // Bold made by printing twice.
        let twice = last.as_ref().is_some_and(|last| {
            last.text == glyph.text
                && (glyph.x0 - last.x0).abs() < 0.12 * size
                && (glyph.y - last.y).abs() < 0.12 * size
        });
        if twice {
            continue;
        }
        let gap = segments.last().map_or(f64::INFINITY, |segment| glyph.x0 - segment.x1);
        let text = clean(&glyph.text);
        match segments.last_mut() {
            Some(segment) if gap <= COLUMN_GAP * size => {
                if is_space(&segment.text, &text, gap / size, blank) {
                    segment.text.push(' ');
                }
                segment.text.push_str(&text);
                segment.x1 = segment.x1.max(glyph.x1);
            }
            _ => segments.push(Segment { text, x0: glyph.x0, x1: glyph.x1 }),
        }
        blank = false;
        last = Some(glyph);
    }
    (!segments.is_empty()).then_some(Line { y, size, segments })
}

/// The size most glyphs have, counted by tenths of a point.
fn common_size(glyphs: &[Glyph]) -> Option<f64> {
    let mut sizes: Vec<f64> = glyphs.iter().filter(|g| !g.text.trim().is_empty()).map(|g| g.size).collect();
    sizes.sort_by(f64::total_cmp);
    let mut best = (0, *sizes.first()?);
    let (mut count, mut start) = (0, best.1);
    for size in sizes {
        if size - start > 0.1 {
            (count, start) = (0, size);
        }
        count += 1;
        if count > best.0 {
            best = (count, start);
        }
    }
    Some(best.1)
}

fn is_space(before: &str, after: &str, gap: f64, blank: bool) -> bool {
    let wide = |character: Option<char>| character.is_some_and(is_wide);
    if wide(before.chars().next_back()) && wide(after.chars().next()) {
        return gap > if blank { 0.2 } else { 0.6 };
    }
    gap > if blank { 0.04 } else { SPACE }
}

/// Characters written without spaces between them.
pub(super) fn is_wide(character: char) -> bool {
    matches!(character, '\u{2E80}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{FF00}'..='\u{FF60}' | '\u{20000}'..='\u{3FFFF}')
}

/// Ligatures and radical forms as the letters they stand for; nothing invisible.
fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{FB00}'..='\u{FB06}' | '\u{2E80}'..='\u{2FDF}' => out.extend(std::iter::once(character).nfkc()),
            '\u{A0}' => out.push(' '),
            '\u{AD}' => out.push('-'),
            character if character.is_control() || character == '\u{FEFF}' => {}
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Text set in a font whose every glyph is half an em wide.
    pub(in crate::pdf) fn set(text: &str, x: f64, y: f64, size: f64) -> Vec<Glyph> {
        let step = size / 2.0;
        text.chars()
            .enumerate()
            .map(|(index, character)| {
                let x0 = x + step * index as f64;
                Glyph { text: character.to_string(), x0, x1: x0 + step, y, size }
            })
            .collect()
    }

    fn texts(glyphs: Vec<Glyph>) -> Vec<Vec<String>> {
        build(glyphs).into_iter().map(|line| line.segments.into_iter().map(|s| s.text).collect()).collect()
    }

    #[test]
    fn glyphs_become_lines_words_and_segments_whatever_their_order() {
        let mut glyphs = set("second line", 10.0, 30.0, 10.0);
        glyphs.extend(set("Units", 100.0, 10.0, 10.0));
        glyphs.extend(set("a b", 10.0, 10.0, 10.0));
        assert_eq!(texts(glyphs), [vec!["a b", "Units"], vec!["second line"]]);
    }

    #[test]
    fn a_gap_is_a_space_even_when_none_was_written() {
        let mut glyphs = set("sales", 10.0, 10.0, 10.0);
        glyphs.extend(set("fell", 38.0, 10.0, 10.0));
        assert_eq!(texts(glyphs), [vec!["sales fell"]]);
    }

    #[test]
    fn chinese_has_no_spaces_and_double_printed_letters_come_once() {
        let mut glyphs: Vec<Glyph> = Vec::new();
        for (index, character) in "王丽说".chars().enumerate() {
            let x0 = 10.0 + 12.0 * index as f64;
            glyphs.push(Glyph { text: character.to_string(), x0, x1: x0 + 10.0, y: 10.0, size: 10.0 });
            glyphs.push(Glyph { text: character.to_string(), x0: x0 + 0.3, x1: x0 + 10.3, y: 10.0, size: 10.0 });
        }
        assert_eq!(texts(glyphs), [vec!["王丽说"]]);
    }

    #[test]
    fn ligatures_and_radicals_become_letters() {
        assert_eq!(clean("e\u{FB03}cient \u{2F00}"), "efficient 一");
    }
}
