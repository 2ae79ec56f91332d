//! Collects positioned glyphs and ruled lines of one page, turned the way the page is shown.

use std::collections::BTreeMap;

use pdf_extract::{ColorSpace, MediaBox, OutputDev, OutputError, Path, PathOp, Transform};

/// Rules kept for one page: a drawing may have millions.
const MAX_RULES: usize = 20_000;
/// Thinner than this, a filled rectangle is a rule (points).
const RULE_THICKNESS: f64 = 2.5;

/// One glyph's text and place: x to the right, y **down**, in points.
#[derive(Debug, Clone)]
pub(super) struct Glyph {
    pub(super) text: String,
    pub(super) x0: f64,
    pub(super) x1: f64,
    /// The baseline.
    pub(super) y: f64,
    pub(super) size: f64,
}

/// A horizontal rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rule {
    pub(super) x0: f64,
    pub(super) x1: f64,
    pub(super) y: f64,
}

/// What a page holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) horizontal: Vec<Glyph>,
    /// One list per other direction, in its own frame.
    pub(super) rotated: Vec<Vec<Glyph>>,
    pub(super) rules: Vec<Rule>,
}

pub(super) struct PageSink {
    rotation: i64,
    max_glyphs: usize,
    /// By direction in degrees, rounded.
    glyphs: BTreeMap<i64, Vec<Glyph>>,
    count: usize,
    rules: Vec<Rule>,
}

impl PageSink {
    pub(super) fn new(rotation: i64, max_glyphs: usize) -> Self {
        Self { rotation, max_glyphs, glyphs: BTreeMap::new(), count: 0, rules: Vec::new() }
    }

    pub(super) fn finish(mut self) -> Found {
        let horizontal = self.glyphs.remove(&0).unwrap_or_default();
        Found { horizontal, rotated: self.glyphs.into_values().collect(), rules: self.rules }
    }

    /// A point or a direction as shown.
    fn turn(&self, x: f64, y: f64) -> (f64, f64) {
        match self.rotation {
            90 => (y, -x),
            180 => (-x, -y),
            270 => (-y, x),
            _ => (x, y),
        }
    }

    fn point(&self, ctm: &Transform, x: f64, y: f64) -> (f64, f64) {
        self.turn(x * ctm.m11 + y * ctm.m21 + ctm.m31, x * ctm.m12 + y * ctm.m22 + ctm.m32)
    }

    fn rule(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64)) {
        let finite = [x0, y0, x1, y1].iter().all(|value| value.is_finite());
        if finite && (y1 - y0).abs() <= RULE_THICKNESS && (x1 - x0).abs() >= 8.0 && self.rules.len() < MAX_RULES {
            self.rules.push(Rule { x0: x0.min(x1), x1: x0.max(x1), y: -(y0 + y1) / 2.0 });
        }
    }

    fn path(&mut self, ctm: &Transform, path: &Path, stroked: bool) {
        let mut at = (0.0, 0.0);
        for operation in &path.ops {
            match operation {
                PathOp::MoveTo(x, y) => at = (*x, *y),
                PathOp::LineTo(x, y) => {
                    if stroked {
                        let (from, to) = (self.point(ctm, at.0, at.1), self.point(ctm, *x, *y));
                        self.rule(from, to);
                    }
                    at = (*x, *y);
                }
                PathOp::Rect(x, y, width, height) => {
                    let (low, high) = (self.point(ctm, *x, *y), self.point(ctm, x + width, y + height));
                    if stroked {
                        self.rule((low.0, low.1), (high.0, low.1));
                        self.rule((low.0, high.1), (high.0, high.1));
                    } else {
                        self.rule(low, high);
                    }
                }
                _ => {}
            }
        }
    }
}

impl OutputDev for PageSink {
    fn begin_page(&mut self, _: u32, _: &MediaBox, _: Option<(f64, f64, f64, f64)>) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn output_character(
        &mut self,
        trm: &Transform,
        width: f64,
        _spacing: f64,
        font_size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        let (x, y) = self.turn(trm.m31, trm.m32);
        let (dx, dy) = self.turn(trm.m11, trm.m12);
        let (length, size) = (dx.hypot(dy), font_size.abs() * trm.m21.hypot(trm.m22));
        let advance = width * font_size.abs() * length;
        if text.is_empty()
            || self.count >= self.max_glyphs
            || ![x, y, length, size, advance].iter().all(|value| value.is_finite())
            || length == 0.0
            || size == 0.0
        {
            return Ok(());
        }
        self.count += 1;
        let (cos, sin) = (dx / length, dy / length);
        #[expect(clippy::cast_possible_truncation, reason = "an angle in degrees")]
        let mut degrees = sin.atan2(cos).to_degrees().round() as i64;
        // A scan's text layer is a little askew; that is still horizontal.
        if degrees.abs() <= 3 {
            degrees = 0;
        }
        let (x, y) = if degrees == 0 { (x, y) } else { (x * cos + y * sin, y * cos - x * sin) };
        self.glyphs.entry(degrees).or_default().push(Glyph {
            text: text.to_owned(),
            x0: x,
            x1: x + advance.max(0.0),
            y: -y,
            size,
        });
        Ok(())
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn stroke(&mut self, ctm: &Transform, _: &ColorSpace, _: &[f64], path: &Path) -> Result<(), OutputError> {
        self.path(ctm, path, true);
        Ok(())
    }

    fn fill(&mut self, ctm: &Transform, _: &ColorSpace, _: &[f64], path: &Path) -> Result<(), OutputError> {
        self.path(ctm, path, false);
        Ok(())
    }
}
