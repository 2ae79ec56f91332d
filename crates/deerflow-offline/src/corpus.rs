//! All documents, cut up, and what each unit is worth for a request.

use crate::ask::{Ask, REASONS};
use crate::conversation::Document;
use crate::lexicon::{has, is_han};
use crate::units::{Kind, Unit};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a unit may be instead of a finding: names of a cue, of the cue with `-section` for headings, and of a heading.
const ASIDES: [&str; 3] = ["denied", "proposed", "open"];
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
        let mut corpus = Self::default();
        for (source, document) in documents.iter().enumerate().filter(|(_, document)| document.failure.is_none()) {
            corpus.cut(source, document);
        }
        for token in corpus.units.iter().flat_map(|unit| &unit.tokens) {
            *corpus.frequency.entry(token.clone()).or_default() += 1;
        }
        corpus.marks = (0..corpus.units.len()).map(|at| corpus.mark(at, ask)).collect();
        corpus
    }

    /// How much a word tells: the rarer, the more.
    pub(crate) fn rarity(&self, token: &str) -> f64 {
        (1.0 + self.units.len() as f64 / (1.0 + self.frequency.get(token).copied().unwrap_or(0) as f64)).ln()
    }

    /// Share of the request's words that the unit has.
    fn query(&self, at: usize, ask: &Ask) -> f64 {
        let asked = |term: &String| self.rarity(term);
        let said = ask.terms.keys().filter(|term| self.units[at].tokens.contains(*term));
        said.map(asked).sum::<f64>() / ask.terms.keys().map(asked).sum::<f64>().max(f64::MIN_POSITIVE)
    }

    /// How far the unit has words that come back, but not everywhere: 0 to about 1.
    fn centrality(&self, unit: &Unit) -> f64 {
        let often = |token: &String| (1.0 + self.frequency.get(token).copied().unwrap_or(0) as f64).ln();
        let worth: f64 = unit.tokens.iter().map(|token| often(token) * self.rarity(token)).sum();
        // No word can be worth more than this.
        let most = ((1.0 + self.units.len() as f64).ln() / 2.0).powi(2);
        worth / most / (unit.tokens.len() as f64).max(8.0)
    }

    fn mark(&self, at: usize, ask: &Ask) -> Mark {
        let unit = &self.units[at];
        let [cause, loss, figure, root] = ["cause", "loss", "figure", "root"].map(|cue| has(cue, &unit.text));
        let cause = cause || root;
        let reasons = ask.task == REASONS;
        let under = |cue: &str| unit.section.is_some_and(|at| has(&format!("{cue}-section"), &self.units[at].text));
        // A line of contact under the open points is none.
        let listed = |aside: &str| under(aside) && (aside != "open" || unit.kind == Kind::Item);
        let fits = |aside: &&str| (reasons || *aside != "denied") && (has(aside, &unit.text) || listed(aside));
        let aside = ASIDES.into_iter().find(fits);
        // What stands under a heading speaks of it.
        let query = self.query(at, ask).max(unit.section.map_or(0.0, |at| 0.5 * self.query(at, ask)));
        let wanted = ask.wanted.is_some_and(|cue| has(cue, &unit.text));
        let leads = at == 0 || self.units[at - 1].kind == Kind::Heading;
        let [figures, leads, told, causes, loses, roots] = [figure, leads, wanted, cause, loss, root].map(f64::from);
        let telling = (causes + 0.5 * loses + 0.8 * roots) * if reasons { 1.0 } else { 0.2 };
        let worth = 1.2 * query + 0.7 * self.centrality(unit) + 0.4 * figures + 0.2 * leads + 1.5 * told + telling;
        let question = unit.text.ends_with(['?', '？']);
        let han = unit.text.chars().filter(|c| is_han(*c)).count();
        let words = unit.text.split_whitespace().count() + han / 2;
        let length = if question {
            0.2
        } else if (6..=45).contains(&words) {
            1.0
        } else {
            0.6
        };
        let prose = match unit.kind {
            Kind::Header | Kind::Heading => false,
            // The table stands for its rows, unless one is asked for.
            Kind::Row => query > 0.0 && !reasons,
            Kind::Sentence | Kind::Item => !question || aside == Some("open"),
        };
        Mark { score: worth * length, query, cause, wanted, telling: cause || loss, figure, aside, prose }
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
        for at in candidates.into_iter().take(MAX_CANDIDATES).map(|(at, _)| at) {
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
