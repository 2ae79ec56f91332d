//! What is quoted where.

use crate::conversation::Document;
use crate::lexicon::{PERSON, akin, tokens};
use crate::request::{Ask, Task};
use crate::score::Corpus;
use crate::sentences::{Place, Table};
use crate::themes::{Theme, gather};
use deerflow_core::text;
use std::collections::BTreeSet;

pub(crate) struct Findings<'a> {
    pub(crate) ask: &'a Ask,
    pub(crate) documents: &'a [Document],
    pub(crate) corpus: Corpus,
    pub(crate) themes: Vec<Theme>,
    /// Quotes of the main part, in the order of the files.
    pub(crate) points: Vec<usize>,
    pub(crate) figures: Vec<usize>,
    /// Indices of tables worth showing whole.
    pub(crate) tables: Vec<usize>,
    /// What each named speaker says.
    pub(crate) voices: Vec<(String, usize)>,
    /// Sentences that say what is no cause.
    pub(crate) denials: Vec<usize>,
    /// What the sources propose.
    pub(crate) proposals: Vec<usize>,
    /// Sentences in which a source says that something is not known.
    pub(crate) open: Vec<usize>,
    /// Words of the request that no source has.
    pub(crate) missing: Vec<&'a str>,
    /// Nothing fits the request; the points are the general ones.
    pub(crate) off_topic: bool,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(ask: &'a Ask, documents: &'a [Document]) -> Self {
        let corpus = Corpus::new(documents);
        let marks = corpus.rank(ask);
        let specific = !ask.terms.is_empty() && ask.task != Task::Summary;
        let causes = marks.iter().filter(|mark| mark.prose && mark.cause).count();
        let about_causes = ask.task == Task::Reasons && causes > 1;
        let off_topic = specific && !about_causes && marks.iter().all(|mark| mark.query == 0.0);
        let prose = |at: &usize| marks[*at].prose;
        let all = 0..corpus.units.len();
        let (mut themes, mut points) = (Vec::new(), Vec::new());
        if ask.task == Task::Reasons && !off_topic {
            (themes, points) = gather(&corpus, &marks, ask);
        }
        if themes.is_empty() && points.is_empty() {
            let close = |at: &usize| prose(at) && (off_topic || !specific || marks[*at].query > 0.0);
            points = match ask.task {
                Task::Compare => (0..documents.len())
                    .flat_map(|source| {
                        let own = all.clone().filter(|at| corpus.units[*at].source == source);
                        corpus.pick(&marks, own.filter(prose), 5)
                    })
                    .collect(),
                Task::List if !off_topic => corpus.pick(&marks, all.clone().filter(close), 20),
                _ => {
                    let size = if off_topic { 5 } else { (corpus.units.len() / 10).clamp(5, 10) };
                    corpus.pick(&marks, all.clone().filter(close), size)
                }
            };
        }
        let mut used: BTreeSet<usize> = themes.iter().flat_map(|theme| theme.quotes.iter().copied()).collect();
        used.extend(&points);
        let figures = corpus.pick(
            &marks,
            all.clone().filter(|at| prose(at) && marks[*at].figure && !marks[*at].aside && !used.contains(at)),
            8,
        );
        used.extend(&figures);
        let mut voices: Vec<(String, usize)> = Vec::new();
        for at in all.clone().filter(prose) {
            let unit = &corpus.units[at];
            let above =
                unit.section.and_then(|at| PERSON.captures(&corpus.units[at].text)).map(|found| found[1].to_owned());
            let Some(name) = unit.speaker.clone().filter(|_| above.is_none()).or(above) else { continue };
            // Their own words first, then what is not quoted yet.
            let worth = |at: usize| {
                let direct = corpus.units[at].text.contains(['"', '“', '「']) || corpus.units[at].speaker.is_some();
                marks[at].score + f64::from(direct) - if used.contains(&at) { 0.5 } else { 0.0 }
            };
            let better = |old: usize| worth(at) > worth(old);
            match voices.iter_mut().find(|(known, _)| *known == name) {
                Some((_, best)) if better(*best) => *best = at,
                Some(_) => {}
                None => voices.push((name, at)),
            }
        }
        voices.truncate(12);
        let denials = if ask.task == Task::Reasons {
            corpus.pick(&marks, all.clone().filter(|at| prose(at) && marks[*at].denial), 4)
        } else {
            Vec::new()
        };
        let proposals =
            corpus.pick(&marks, all.clone().filter(|at| prose(at) && marks[*at].proposed && !used.contains(at)), 8);
        let open = corpus.pick(&marks, all.filter(|at| prose(at) && marks[*at].open), 5);
        let known = |term: &str| corpus.tokens.iter().flatten().any(|token| akin(token, term));
        let missing = ask.terms.iter().filter(|(_, term)| !known(term)).map(|(word, _)| word.as_str()).collect();
        let tables = tables(&corpus, ask);
        Self {
            ask,
            documents,
            corpus,
            themes,
            points,
            figures,
            tables,
            voices,
            denials,
            proposals,
            open,
            missing,
            off_topic,
        }
    }

    /// `“…” (notes.pdf, p. 3)`
    pub(crate) fn quote(&self, at: usize) -> String {
        let unit = &self.corpus.units[at];
        let text = text::ellipsis(&unit.text, 320);
        let mut text = text.as_str();
        if text.matches(['“', '”', '"']).count() % 2 == 1 {
            let quotes = ['“', '”', '"'];
            text = text.strip_prefix(quotes).or_else(|| text.strip_suffix(quotes)).unwrap_or(text);
        }
        format!("“{text}” {}", self.cite(unit.source, &unit.place))
    }

    /// `(notes.pdf, p. 3)`
    pub(crate) fn cite(&self, source: usize, place: &Place) -> String {
        let place = match place {
            Place::Line(line) => self.ask.say("line #", "第 # 行").replace('#', &line.to_string()),
            Place::Mark(kind, which) if kind == "page" => self.ask.say("p. #", "第 # 页").replace('#', which),
            Place::Mark(kind, which) => format!("{kind} {which}"),
        };
        format!("({}, {place})", self.documents.get(source).map_or("", |document| &document.name))
    }

    /// Names of the files that were read, or of those that were not.
    pub(crate) fn names(&self, read: bool) -> Vec<&str> {
        let fits = self.documents.iter().filter(|document| document.failure.is_none() == read);
        fits.map(|document| document.name.as_str()).collect()
    }
}

/// The tables that the request touches; failing that, the first ones.
fn tables(corpus: &Corpus, ask: &Ask) -> Vec<usize> {
    let touch = |table: &Table| {
        let words = tokens(&table.rows.concat().join(" "));
        ask.terms.iter().any(|(_, term)| words.iter().any(|word| akin(word, term)))
    };
    let numeric =
        |table: &Table| table.rows.iter().skip(1).flatten().any(|cell| cell.chars().any(|c| c.is_ascii_digit()));
    let all: Vec<usize> = (0..corpus.tables.len()).filter(|at| numeric(&corpus.tables[*at])).collect();
    let touched: Vec<usize> = all.iter().copied().filter(|at| touch(&corpus.tables[*at])).collect();
    let mut chosen = if touched.is_empty() { all } else { touched };
    chosen.truncate(3);
    chosen
}
