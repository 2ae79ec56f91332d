//! Which units matter for a request.

use crate::conversation::Document;
use crate::lexicon::{CAUSE, CONTRAST, DENIAL, FIGURE, LOSS, OPEN, PROPOSED, UNDECIDED, akin, is_han, tokens};
use crate::request::{Ask, Task};
use crate::sentences::{Cutter, Kind, Table, Unit};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// All documents, cut up and counted.
pub(crate) struct Corpus {
    pub(crate) units: Vec<Unit>,
    pub(crate) tables: Vec<Table>,
    pub(crate) tokens: Vec<BTreeSet<String>>,
    frequency: BTreeMap<String, usize>,
}

/// What is seen in one unit, and how much it counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mark {
    pub(crate) score: f64,
    /// Share of the request's words that it has, by weight: 0 to 1.
    pub(crate) query: f64,
    pub(crate) cause: bool,
    pub(crate) loss: bool,
    pub(crate) figure: bool,
    pub(crate) open: bool,
    /// Says that something is no cause.
    pub(crate) denial: bool,
    /// Stands under "proposals".
    pub(crate) proposed: bool,
    /// A finding of another part than the main one.
    pub(crate) aside: bool,
    /// Can be quoted as a finding.
    pub(crate) prose: bool,
}

impl Corpus {
    pub(crate) fn new(documents: &[Document]) -> Self {
        let mut cutter = Cutter::default();
        for (source, document) in documents.iter().enumerate().filter(|(_, document)| document.failure.is_none()) {
            cutter.cut(source, document);
        }
        let Cutter { units, tables, .. } = cutter;
        let tokens: Vec<BTreeSet<String>> = units.iter().map(|unit| tokens(&unit.text).into_iter().collect()).collect();
        let mut frequency = BTreeMap::new();
        for token in tokens.iter().flatten() {
            *frequency.entry(token.clone()).or_default() += 1;
        }
        Self { units, tables, tokens, frequency }
    }

    /// How much a word tells: the rarer, the more.
    pub(crate) fn rarity(&self, token: &str) -> f64 {
        (1.0 + self.units.len() as f64 / (1.0 + self.frequency.get(token).copied().unwrap_or(0) as f64)).ln()
    }

    /// Marks for every unit.
    pub(crate) fn rank(&self, ask: &Ask) -> Vec<Mark> {
        let centre: Vec<f64> = self.tokens.iter().map(|tokens| self.centrality(tokens)).collect();
        let top = centre.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let query: Vec<f64> = self.tokens.iter().map(|tokens| self.coverage(ask, tokens)).collect();
        let only_rows = self.units.iter().all(|unit| matches!(unit.kind, Kind::Row | Kind::Heading));
        // Weights: query, centrality, cause, loss, figure, lead.
        let w = match ask.task {
            Task::Reasons => [0.8, 0.5, 1.0, 0.5, 0.4, 0.1],
            Task::Summary => [0.8, 1.0, 0.3, 0.1, 0.4, 0.4],
            Task::Compare | Task::List => [1.2, 0.8, 0.2, 0.1, 0.5, 0.2],
            Task::Question => [1.8, 0.6, 0.2, 0.1, 0.4, 0.2],
        };
        let on = |flag: bool, weight: f64| if flag { weight } else { 0.0 };
        let mark = |index: usize| {
            let unit = &self.units[index];
            let under = |words: &Regex| unit.section.is_some_and(|at| words.is_match(&self.units[at].text));
            let mut mark = Mark {
                query: query[index],
                cause: CAUSE.is_match(&unit.text),
                loss: LOSS.is_match(&unit.text),
                figure: FIGURE.is_match(&unit.text),
                open: OPEN.is_match(&unit.text) || under(&UNDECIDED),
                denial: DENIAL.is_match(&unit.text),
                proposed: under(&PROPOSED),
                prose: matches!(unit.kind, Kind::Sentence | Kind::Item) || (only_rows && unit.kind == Kind::Row),
                ..Mark::default()
            };
            let above = unit.section.map_or(0.0, |at| query[at]);
            let cause =
                on(mark.cause, 1.0).max(on(CONTRAST.is_match(&unit.text), 0.3)) + on(unit.speaker.is_some(), 0.1);
            mark.score = w[0] * (mark.query + 0.3 * above).min(1.0)
                + w[1] * centre[index] / top
                + w[2] * cause
                + on(mark.loss, w[3])
                + on(mark.figure, w[4])
                + on(unit.lead, w[5]);
            let question = unit.asked || unit.text.ends_with(['?', '？']);
            mark.score *= length_factor(&unit.text) * if question { 0.2 } else { 1.0 };
            mark.prose &= !question || under(&UNDECIDED);
            mark.aside = mark.denial || mark.proposed || under(&UNDECIDED);
            mark
        };
        (0..self.units.len()).map(mark).collect()
    }

    /// Words that come back, but not everywhere.
    fn centrality(&self, tokens: &BTreeSet<String>) -> f64 {
        let weight = |token: &String| {
            let n = self.frequency.get(token).copied().unwrap_or(0) as f64;
            (1.0 + n).ln() * self.rarity(token)
        };
        let mut weights: Vec<f64> = tokens.iter().map(weight).collect();
        weights.sort_by(|a, b| b.total_cmp(a));
        weights.iter().take(8).sum::<f64>() / 8.0
    }

    fn coverage(&self, ask: &Ask, tokens: &BTreeSet<String>) -> f64 {
        let (mut got, mut all) = (0.0, 0.0);
        for (_, term) in &ask.terms {
            let weight = self.rarity(term);
            all += weight;
            let near = || tokens.iter().any(|token| akin(token, term));
            got += if tokens.contains(term) {
                weight
            } else if near() {
                0.7 * weight
            } else {
                0.0
            };
        }
        if all > 0.0 { got / all } else { 0.0 }
    }

    /// The best of `candidates`, none too like another, in their order in the files.
    pub(crate) fn pick(&self, marks: &[Mark], candidates: impl Iterator<Item = usize>, count: usize) -> Vec<usize> {
        let mut ranked: Vec<usize> = candidates.collect();
        ranked.sort_by(|a, b| marks[*b].score.total_cmp(&marks[*a].score).then(a.cmp(b)));
        let mut chosen = self.unlike(ranked.into_iter(), count);
        chosen.sort_unstable();
        chosen
    }

    /// The first of `ranked`, none too like another.
    pub(crate) fn unlike(&self, ranked: impl Iterator<Item = usize>, count: usize) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        for index in ranked.take(400) {
            if chosen.len() < count && chosen.iter().all(|other| !self.alike(index, *other)) {
                chosen.push(index);
            }
        }
        chosen
    }

    /// Whether two units say nearly the same, by the words they share.
    pub(crate) fn alike(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.tokens[a], &self.tokens[b]);
        let shared = a.intersection(b).count();
        shared * 2 > a.len() + b.len() - shared || (shared == 0 && a.is_empty() && b.is_empty())
    }
}

fn length_factor(text: &str) -> f64 {
    let han = text.chars().filter(|c| is_han(*c)).count();
    match text.split_whitespace().count() + han / 2 {
        0..=3 => 0.3,
        4..=5 => 0.7,
        6..=45 => 1.0,
        46..=80 => 0.7,
        _ => 0.4,
    }
}
