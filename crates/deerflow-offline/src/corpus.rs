//! All documents, cut up, and what each unit is worth for a request.

use crate::ask::{Ask, COMPARE, QUESTION, REASONS};
use crate::conversation::Document;
use crate::lexicon::{has, is_han, tokens};
use crate::units::{Cutter, Kind, Table, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// What a unit may be instead of a finding: names of a cue, of the cue with `-section` for headings, and of a heading.
const ASIDES: [&str; 3] = ["denied", "proposed", "open"];

pub(crate) struct Corpus {
    pub(crate) units: Vec<Unit>,
    pub(crate) tables: Vec<Table>,
    /// Reduced words of each unit.
    pub(crate) tokens: Vec<BTreeSet<String>>,
    /// What is seen in each unit.
    pub(crate) marks: Vec<Mark>,
    frequency: BTreeMap<String, usize>,
}

pub(crate) struct Mark {
    score: f64,
    /// Share of the request's words that it has, by weight: 0 to 1.
    pub(crate) query: f64,
    pub(crate) cause: bool,
    /// Answers the kind of question that was asked.
    pub(crate) wanted: bool,
    /// Names a cause or a loss.
    pub(crate) telling: bool,
    pub(crate) figure: bool,
    pub(crate) aside: Option<&'static str>,
    /// Can be quoted.
    prose: bool,
}

impl Corpus {
    pub(crate) fn new(documents: &[Document], ask: &Ask) -> Self {
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
        let mut corpus = Self { units, tables, tokens, frequency, marks: Vec::new() };
        corpus.marks = corpus.rank(ask);
        corpus
    }

    /// How much a word tells: the rarer, the more.
    pub(crate) fn rarity(&self, token: &str) -> f64 {
        (1.0 + self.units.len() as f64 / (1.0 + self.frequency.get(token).copied().unwrap_or(0) as f64)).ln()
    }

    fn rank(&self, ask: &Ask) -> Vec<Mark> {
        let often = |token: &String| self.frequency.get(token).copied().unwrap_or(0) as f64;
        // Words that come back, but not everywhere.
        let central = |tokens: &BTreeSet<String>| {
            let worth = tokens.iter().map(|token| (1.0 + often(token)).ln() * self.rarity(token)).sum::<f64>();
            worth / (tokens.len() as f64).max(8.0)
        };
        let centre: Vec<f64> = self.tokens.iter().map(central).collect();
        let top = centre.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let asked = |tokens: Option<&BTreeSet<String>>| {
            let terms = ask.terms.keys().filter(|term| tokens.is_none_or(|tokens| tokens.contains(*term)));
            terms.map(|term| self.rarity(term)).sum::<f64>()
        };
        let all = asked(None).max(f64::MIN_POSITIVE);
        let query: Vec<f64> = self.tokens.iter().map(|tokens| asked(Some(tokens)) / all).collect();
        let is_prose = |unit: &&Unit| matches!(unit.kind, Kind::Sentence | Kind::Item);
        let in_prose: BTreeSet<usize> = self.units.iter().filter(is_prose).map(|unit| unit.source).collect();
        let reasons = ask.task == REASONS;
        let weights = match ask.task {
            REASONS => [1.2, 0.7, 1.0, 0.5, 0.4, 0.2, 0.8, 0.0],
            COMPARE => [0.2, 0.7, 0.2, 0.1, 0.8, 0.2, 0.0, 0.0],
            _ => [1.2, 0.7, 0.2, 0.1, 0.4, 0.2, 0.0, 1.5],
        };
        let mark = |(at, unit): (usize, &Unit)| {
            let [cause, loss, figure, root] = ["cause", "loss", "figure", "root"].map(|cue| has(cue, &unit.text));
            let wanted = ask.wanted.is_some_and(|cue| has(cue, &unit.text));
            let under = |cue: &str| unit.section.is_some_and(|at| has(&format!("{cue}-section"), &self.units[at].text));
            // A line of contact under the open points is none.
            let listed = |aside: &str| under(aside) && (aside != "open" || unit.kind == Kind::Item);
            let fits = |aside: &&str| (reasons || *aside != "denied") && (has(aside, &unit.text) || listed(aside));
            let aside = ASIDES.into_iter().find(fits);
            // What stands under a heading speaks of it.
            let query = query[at].max(unit.section.map_or(0.0, |at| 0.5 * query[at]));
            let [causes, loses, figures, leads, roots, told] =
                [cause || root, loss, figure, unit.lead, root, wanted].map(f64::from);
            let parts = [query, centre[at] / top, causes, loses, figures, leads, roots, told];
            let worth: f64 = weights.iter().zip(parts).map(|(weight, part)| weight * part).sum();
            let question = unit.text.ends_with(['?', '？']);
            let han = unit.text.chars().filter(|c| is_han(*c)).count();
            let length = match unit.text.split_whitespace().count() + han / 2 {
                _ if question => 0.2,
                6..=45 => 1.0,
                4..=80 => 0.7,
                _ => 0.4,
            };
            // The table stands for its rows, unless one is asked for.
            let asked = query > 0.0 && (ask.task == QUESTION || !in_prose.contains(&unit.source));
            let row = unit.kind == Kind::Row && asked && !reasons;
            let prose = (is_prose(&unit) || row) && (!question || aside == Some("open"));
            let telling = cause || root || loss;
            Mark { score: worth * length, query, cause: cause || root, wanted, telling, figure, aside, prose }
        };
        self.units.iter().enumerate().map(mark).collect()
    }

    /// Quotable units that fit, with their scores.
    pub(crate) fn prose(&self, fits: impl Fn(usize, &Mark) -> bool) -> Vec<(usize, f64)> {
        let marks = self.marks.iter().enumerate();
        marks.filter(|(at, mark)| mark.prose && fits(*at, mark)).map(|(at, mark)| (at, mark.score)).collect()
    }

    /// The best of `candidates`, best first, none with most of its words in common with another.
    pub(crate) fn pick(&self, mut candidates: Vec<(usize, f64)>, count: usize) -> Vec<usize> {
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut chosen: Vec<usize> = Vec::new();
        for at in candidates.into_iter().take(400).map(|(at, _)| at) {
            let row = self.units[at].kind == Kind::Row;
            let alike = |other: &usize| {
                let (own, other) = (&self.tokens[at], &self.tokens[*other]);
                own.intersection(other).count() * 2 >= own.union(other).count().max(1)
            };
            if chosen.len() < count && (row || !chosen.iter().any(alike)) {
                chosen.push(at);
            }
        }
        chosen
    }
}
