//! What is quoted where: the best for the request, causes under themes, and what goes in sections of its own.

use crate::conversation::Document;
use crate::corpus::{ASIDES, Corpus, Kind, Mark, Unit};
use crate::lexicon::{Ask, COMPARE, LIST, QUESTION, REASONS, SUMMARY, cue, has, is_han, is_listed, tokens};
use deerflow_core::text;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const MAX_TABLES: usize = 3;
/// Headings after the main part: figures, and the asides.
const SECTIONS: [&str; 4] = ["figures", ASIDES[0], ASIDES[1], ASIDES[2]];
/// Marks of a quotation.
const QUOTES: [char; 3] = ['“', '”', '"'];
const MAX_THEMES: usize = 8;
/// Share of a theme's words that a sentence about it has.
const FIT: f64 = 0.4;
const MAX_WORDS: usize = 8;

pub(crate) struct Findings<'a> {
    pub(crate) ask: &'a Ask,
    /// The files that were read.
    pub(crate) documents: Vec<&'a Document>,
    /// The others.
    pub(crate) failed: Vec<&'a Document>,
    pub(crate) corpus: Corpus,
    /// The main part, by theme or by file.
    pub(crate) themes: Vec<Theme>,
    /// Tables worth showing whole.
    pub(crate) tables: Vec<Range<usize>>,
    /// What else is quoted, each under its heading.
    pub(crate) sections: [(&'static str, Vec<usize>); SECTIONS.len()],
    /// Words of the request that no source has.
    pub(crate) missing: Vec<&'a str>,
    /// Nothing fits the request.
    pub(crate) off_topic: bool,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(ask: &'a Ask, documents: &'a [Document]) -> Self {
        let (documents, failed): (Vec<_>, Vec<_>) = documents.iter().partition(|document| document.failure.is_none());
        let corpus = Corpus::new(&documents, ask);
        let vague = |term: &str| is_listed("generic", term) || is_listed("movement", term);
        let missed = ask.terms.iter().filter(|(term, _)| !vague(term) && !corpus.frequency.contains_key(*term));
        let missing: Vec<&str> = missed.map(|(_, word)| word.as_str()).collect();
        let best = corpus.marks.iter().map(|mark| mark.query).fold(0.0, f64::max);
        // A name that no source has: what shares another word with the question is no answer.
        let named = ask.task == QUESTION && missing.iter().any(|word| word.starts_with(char::is_uppercase));
        let unanswered = !missing.is_empty() && (best == 0.0 || (named && best < 0.5));
        let han = corpus.units.iter().filter(|unit| unit.text.contains(is_han)).count();
        let off_topic = match ask.task {
            SUMMARY | COMPARE => false,
            REASONS => unanswered && corpus.prose(|at, _| corpus.says(at, "cause")).len() < 2,
            // Words of one language are not looked for in another.
            _ => unanswered && ask.chinese == (han * 2 > corpus.units.len()),
        };
        let mut themes = if ask.task == REASONS && !off_topic { gather(&corpus, ask) } else { Vec::new() };
        if themes.is_empty() && !off_topic {
            themes = by_file(&corpus, ask, &documents, best > 0.0 && matches!(ask.task, LIST | QUESTION));
        }
        let mut used: BTreeSet<usize> = themes.iter().flat_map(|theme| &theme.quotes).copied().collect();
        let sections = SECTIONS.map(|name| {
            let fits = |at, mark: &Mark| mark.aside.or(corpus.says(at, "figure").then_some("figures")) == Some(name);
            let own = corpus.prose(|at, mark| !used.contains(&at) && fits(at, mark));
            let mut quotes = corpus.pick(own, 8, |_| 0.0);
            quotes.sort_unstable();
            used.extend(&quotes);
            (name, quotes)
        });
        let tables = corpus.tables.iter().filter(|table| table.len() > 1).cloned();
        let tables = tables.take(if off_topic { 0 } else { MAX_TABLES }).collect();
        Self { ask, documents, failed, corpus, themes, sections, tables, missing, off_topic }
    }

    /// `“…” (notes.pdf, p. 3)`
    pub(crate) fn quote(&self, at: usize) -> String {
        let text = text::ellipsis(&self.corpus.units[at].text, 320);
        // What is left without the marks at its ends has none of them alone.
        let paired = |own: &&str| own.matches(QUOTES).count().is_multiple_of(2);
        let own = Some(text.trim_matches(QUOTES)).filter(paired).unwrap_or(&text);
        match self.corpus.units[at].kind {
            Kind::Row => format!("{text} {}", self.cite(at)),
            _ => format!("“{}” {}", own.replace(QUOTES, "'"), self.cite(at)),
        }
    }

    /// `(notes.pdf, p. 3)`
    pub(crate) fn cite(&self, at: usize) -> String {
        let Unit { source, place: (kind, number), .. } = &self.corpus.units[at];
        format!("({}, {})", self.documents[*source].name(), self.ask.say_of(kind, number))
    }
}

#[derive(Default)]
pub(crate) struct Theme {
    /// A cell of the table, a phrase from the text, or the name of a file.
    pub(crate) title: String,
    /// Sentences that speak of it, and the row; 0 for quotes that only stand together.
    pub(crate) mentions: usize,
    /// The ones to quote: the table row that gives it, then the best.
    pub(crate) quotes: Vec<usize>,
    /// Its words, reduced, with their weights.
    words: BTreeMap<String, f64>,
    /// Figures of the row, as written.
    figures: Vec<String>,
    /// Higher goes before more mentions: the order of the table, or 0 to 2 for how plainly a source calls it the cause.
    rank: usize,
}

/// The best of each file: what has words of the request where they are asked about, else what tells most.
fn by_file(corpus: &Corpus, ask: &Ask, documents: &[&Document], asked: bool) -> Vec<Theme> {
    let size = if ask.task == LIST { 20 } else { (corpus.units.len() / 10).clamp(5, 10) };
    let fits = |mark: &Mark| if asked { mark.query > 0.0 } else { mark.aside.is_none() };
    let theme = |(source, document): (usize, &&Document)| {
        let own = corpus.prose(|at, mark| corpus.units[at].source == source && fits(mark));
        let title = if documents.len() > 1 { document.name() } else { "" };
        Theme::plain(title, corpus.pick(own, size, |_| 0.0))
    };
    let themes = documents.iter().enumerate().map(theme);
    themes.filter(|theme| !theme.quotes.is_empty() || !theme.title.is_empty()).collect()
}

/// Themes by weight, and last the causes that fit none of them.
///
/// A theme is a few words; each sentence goes to the theme it fits best. The themes are the rows of a source's own table of
/// causes, in its order; without one they are what the telling sentences name.
fn gather(corpus: &Corpus, ask: &Ask) -> Vec<Theme> {
    let mut themes = tabled(corpus);
    if themes.is_empty() {
        themes = led(corpus, ask);
    }
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); themes.len()];
    let mut free = Vec::new();
    for at in corpus.prose(|_, mark| mark.aside.is_none()) {
        let fits = themes.iter().map(|theme| theme.fit(corpus, at)).zip(&mut members);
        match fits.rev().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(fit, _)| *fit >= FIT) {
            Some((_, members)) => members.push(at),
            None => free.extend(corpus.says(at, "cause").then_some(at)),
        }
    }
    for (theme, mut members) in themes.iter_mut().zip(members) {
        let given = !theme.quotes.is_empty();
        theme.mentions = members.len() + theme.quotes.len();
        members.retain(|at| given || ["cause", "loss"].into_iter().any(|cue| corpus.says(*at, cue)));
        let best = corpus.pick(members, 3, |at| 2.0 * theme.fit(corpus, at));
        theme.quotes.extend(best);
    }
    themes.sort_by_key(|theme| Reverse((theme.rank, theme.mentions)));
    themes.truncate(MAX_THEMES);
    themes.push(Theme::plain(ask.say("other-reasons"), corpus.pick(free, 4, |_| 0.0)));
    themes.retain(|theme| !theme.quotes.is_empty());
    themes
}

impl Theme {
    /// Quotes that only stand together.
    fn plain(title: &str, quotes: Vec<usize>) -> Self {
        Self { title: title.to_owned(), quotes, ..Self::default() }
    }

    /// A theme of the telling words of its title; what the rarity of each is multiplied by is `weigh`ed.
    fn titled(corpus: &Corpus, title: String, weigh: impl Fn(&str) -> f64) -> Self {
        let telling = tokens(&title).filter(|word| !is_listed("generic", word));
        let words = telling.map(|word| (word.clone(), corpus.rarity(&word) * weigh(&word))).collect();
        Self { title, words, ..Self::default() }
    }

    /// 0 to 1 for its words, by weight, and more for a figure.
    fn fit(&self, corpus: &Corpus, at: usize) -> f64 {
        let said = self.words.iter().filter(|(word, _)| corpus.units[at].tokens.contains(*word));
        let figure = self.figures.iter().any(|figure| corpus.units[at].text.contains(figure));
        let share = said.map(|(_, weight)| weight).sum::<f64>() / self.words.values().sum::<f64>().max(1.0);
        share + FIT * f64::from(figure)
    }
}

/// One theme for each row of the first table whose first column is headed "cause" or "reason".
fn tabled(corpus: &Corpus) -> Vec<Theme> {
    let first = |at: usize| corpus.units[at].cells.first().filter(|cell| cell.len() > 2 && !is_listed("dull", cell));
    let titled = |table: &&Range<usize>| first(table.start).is_some_and(|head| has("cause-column", head));
    let Some(table) = corpus.tables.iter().find(titled) else { return Vec::new() };
    let theme = |at: usize| {
        let figure = |word: &&str| word.len() > 3 && word.starts_with(|c: char| c.is_ascii_digit());
        let words = corpus.units[at].cells.iter().flat_map(|cell| cell.split(' '));
        let figures = words.filter(figure).map(str::to_owned).collect();
        let theme = Theme::titled(corpus, first(at)?.clone(), |_| 1.0);
        Some(Theme { figures, quotes: vec![at], rank: table.end - at, ..theme })
    };
    table.clone().skip(1).filter_map(theme).take(MAX_THEMES).collect()
}

/// One theme for each sentence, best first, that names a cause and fits no theme before it. Known subjects weigh most;
/// what is asked about tells no theme from another.
fn led(corpus: &Corpus, ask: &Ask) -> Vec<Theme> {
    let mut themes: Vec<Theme> = Vec::new();
    let known = |word: &str| is_listed("subject", word);
    let weigh = |word: &str| f64::from(!ask.terms.contains_key(word)) * if known(word) { 9.0 } else { 1.0 };
    // Beside a cause that is called one, a loss alone is none.
    let rooted = (0..corpus.units.len()).any(|at| corpus.says(at, "root"));
    let loses = |at: usize| corpus.says(at, "loss") && corpus.units[at].tokens.iter().any(|word| known(word));
    let leads = |at: usize| corpus.says(at, "cause") || (!rooted && loses(at));
    let leading = corpus.prose(|at, mark| mark.aside.is_none() && leads(at));
    for at in corpus.pick(leading, 4 * MAX_THEMES, |_| 0.0) {
        if themes.iter().all(|theme| theme.fit(corpus, at) < FIT) {
            let rank = ["root", "main-cause"].into_iter().filter(|cue| corpus.says(at, cue)).count();
            themes.push(Theme { rank, ..Theme::titled(corpus, title(&corpus.units[at].text), weigh) });
        }
    }
    themes
}

/// A few words of a sentence: the cause it names, or its start.
fn title(text: &str) -> String {
    let own = text.split_once([':', '：']).filter(|_| has("label", text)).map_or(text, |(_, own)| own);
    let named = |name: &str| clause(cue(name).captures(own)?.iter().skip(1).flatten().next()?.as_str());
    let named = named("root").or_else(|| named("named-cause")).or_else(|| clause(own));
    named.unwrap_or_else(|| capital(text::head(own, 80)))
}

/// The first clause that can stand alone, without articles.
fn clause(text: &str) -> Option<String> {
    let title = |clause: &str| {
        let words = clause.split_whitespace().skip_while(|word| has("article", word)).take(MAX_WORDS);
        let title = words.collect::<Vec<_>>().join(" ");
        let title = cue("title-end").replace(&title, "");
        let whole = title.contains(is_han) || (title.contains(' ') && !has("pronoun", &title));
        whole.then(|| capital(text::head(&title, 80)))
    };
    cue("clause-end").split(text.trim()).find_map(title)
}

pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
