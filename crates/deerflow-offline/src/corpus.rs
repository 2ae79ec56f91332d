//! All documents, cut up, and what each unit is worth for a request.

use crate::ask::{Ask, REASONS};
use crate::conversation::Document;
use crate::lexicon::{has, is_han};
use crate::units::{Kind, Unit};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a unit may be instead of a finding: names of a cue, of the cue with `-section` for headings, and of a heading.
pub(crate) const ASIDES: [&str; 3] = ["denied", "proposed", "open"];
/// Candidates for a place in a report that are looked at.
const MAX_CANDIDATES: usize = 400;

#[derive(Default)]
pub(crate) struct Corpus {
    pub(crate) units: Vec<Unit>,
    /// The units of each, from the header on.
    pub(crate) tables: Vec<Range<usize>>,
    /// What is seen in each unit.
    pub(crate) marks: Vec<Mark>,
    frequency: BTreeMap<String, usize>,
}

pub(crate) struct Mark {
    score: f64,
    /// Share of the request's words that it has, by weight: 0 to 1.
    pub(crate) query: f64,
    pub(crate) aside: Option<&'static str>,
    /// Can be quoted.
    prose: bool,
}

impl Corpus {
    pub(crate) fn new(documents: &[&Document], ask: &Ask) -> Self {
        let mut corpus = Self::default();
        documents.iter().enumerate().for_each(|(source, document)| corpus.cut(source, document));
        for token in corpus.units.iter().flat_map(|unit| &unit.tokens) {
            *corpus.frequency.entry(token.clone()).or_default() += 1;
        }
        corpus.marks = (0..corpus.units.len()).map(|at| corpus.mark(at, ask)).collect();
        corpus
    }

    /// Whether the unit has the cue.
    pub(crate) fn says(&self, at: usize, cue: &str) -> bool {
        has(cue, &self.units[at].text)
    }

    /// In how many units the word is.
    pub(crate) fn frequency(&self, token: &str) -> usize {
        self.frequency.get(token).copied().unwrap_or(0)
    }

    /// How much a word tells: the rarer, the more.
    pub(crate) fn rarity(&self, token: &str) -> f64 {
        (1.0 + self.units.len() as f64 / (1.0 + self.frequency(token) as f64)).ln()
    }

    /// Share of the request's words that the unit has.
    fn query(&self, at: usize, ask: &Ask) -> f64 {
        let asked = |term: &String| self.rarity(term);
        let said = ask.terms.keys().filter(|term| self.units[at].tokens.contains(*term));
        said.map(asked).sum::<f64>() / ask.terms.keys().map(asked).sum::<f64>().max(f64::MIN_POSITIVE)
    }

    /// How far the unit has words that come back, but not everywhere: 0 to about 1.
    fn centrality(&self, unit: &Unit) -> f64 {
        let often = |token: &String| (1.0 + self.frequency(token) as f64).ln();
        let worth: f64 = unit.tokens.iter().map(|token| often(token) * self.rarity(token)).sum();
        // No word can be worth more than this.
        let most = ((1.0 + self.units.len() as f64).ln() / 2.0).powi(2);
        worth / most / (unit.tokens.len() as f64).max(8.0)
    }

    fn mark(&self, at: usize, ask: &Ask) -> Mark {
        let unit = &self.units[at];
        let reasons = ask.task == REASONS;
        let item_of = |aside: &str| match unit.section.filter(|_| unit.kind == Kind::Item) {
            Some(section) => self.says(section, &format!("{aside}-section")),
            None => false,
        };
        let fits = |aside: &&str| (reasons || *aside != "denied") && (self.says(at, aside) || item_of(aside));
        let aside = ASIDES.into_iter().find(fits);
        // What stands under a heading speaks of it.
        let query = self.query(at, ask).max(unit.section.map_or(0.0, |at| 0.5 * self.query(at, ask)));
        let said = |cue: &str, weight: f64| if self.says(at, cue) { weight } else { 0.0 };
        let telling = said("cause", 1.0) + said("loss", 0.5) + said("root", 0.8);
        let told = said("figure", 0.4) + ask.wanted.map_or(0.0, |cue| said(cue, 1.5));
        let worth = 1.2 * query + 0.7 * self.centrality(unit) + told + telling * if reasons { 1.0 } else { 0.2 };
        let question = unit.text.ends_with(['?', '？']);
        let han = unit.text.chars().filter(|c| is_han(*c)).count();
        let words = (unit.text.split_whitespace().count() + han / 2).max(1) as f64;
        // A short sentence says little, and a long one too much.
        let length = if question { 0.2 } else { (words / 6.0).min(45.0 / words).min(1.0).sqrt() };
        let prose = match unit.kind {
            Kind::Header | Kind::Heading => false,
            // The table stands for its rows, unless one is asked for.
            Kind::Row => query > 0.0 && !reasons,
            Kind::Sentence | Kind::Item => !question || aside == Some("open"),
        };
        Mark { score: worth * length, query, aside, prose }
    }

    /// Quotable units that fit.
    pub(crate) fn prose(&self, fits: impl Fn(usize, &Mark) -> bool) -> Vec<usize> {
        (0..self.units.len()).filter(|at| self.marks[*at].prose && fits(*at, &self.marks[*at])).collect()
    }

    /// The best of `candidates`, best first, none with most of its words in common with another.
    pub(crate) fn pick(&self, candidates: Vec<usize>, count: usize) -> Vec<usize> {
        self.pick_ranked(candidates.into_iter().map(|at| (at, 0.0)).collect(), count)
    }

    /// [`pick`](Self::pick), where each candidate has a bonus to its score.
    pub(crate) fn pick_ranked(&self, mut candidates: Vec<(usize, f64)>, count: usize) -> Vec<usize> {
        let worth = |(at, bonus): &(usize, f64)| self.marks[*at].score + bonus;
        candidates.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        let mut chosen: Vec<usize> = Vec::new();
        for (at, _) in candidates.into_iter().take(MAX_CANDIDATES) {
            let own = &self.units[at];
            let alike = |other: &usize| {
                let other = &self.units[*other].tokens;
                own.tokens.intersection(other).count() * 2 >= own.tokens.union(other).count().max(1)
            };
            if chosen.len() < count && (own.kind == Kind::Row || !chosen.iter().any(alike)) {
                chosen.push(at);
            }
        }
        chosen
    }
}
