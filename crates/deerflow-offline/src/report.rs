//! The report, its name, and what is said in the chat.

use crate::ask::{Ask, COMPARE, LIST};
use crate::conversation::{Document, file_name};
use crate::corpus::Corpus;
use crate::findings::{FIGURES, Findings, OPEN};
use crate::lexicon::{cue, has, is_han, is_listed, stem, words};
use crate::themes::{Theme, capital};
use crate::units::Table;
use deerflow_core::text;

/// Rows and columns of a table that are shown.
const MAX_ROWS: usize = 20;
const MAX_COLUMNS: usize = 12;
/// Points of the answer in the chat.
const MAX_POINTS: usize = 6;

/// `sales review`: what the report is about, as far as the file's name tells, and what it is.
fn subject_and_kind(ask: &Ask, uploads: &[String]) -> String {
    let kind = cue("deliverable").find_iter(&ask.text).last().map_or(ask.say("kind"), |kind| kind.as_str());
    let name = uploads.first().map_or("", |path| file_name(path));
    let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem).replace(['_', '-', '.'], " ");
    let telling = |word: &&str| !is_listed("task", &stem(word)) && !is_listed("dull", word);
    let mut words: Vec<&str> = words(&name).into_iter().filter(telling).take(3).collect();
    if name.contains(is_han) {
        words = vec![text::head(name.trim(), 20)];
    }
    words.retain(|word| *word != kind);
    words.push(kind);
    words.join(" ").to_lowercase()
}

/// Where the report goes: the name in the request, else one made of subject and kind.
pub(crate) fn path(ask: &Ask, uploads: &[String]) -> String {
    let attached = |name: &String| uploads.iter().any(|path| file_name(path) == name);
    let named = cue("named-file").captures_iter(&ask.text).map(|found| found[1].to_owned());
    let name = named.into_iter().find(|name| !attached(name));
    let name = name.unwrap_or_else(|| format!("{}.md", subject_and_kind(ask, uploads)));
    format!("/mnt/user-data/outputs/{}", name.replace(' ', "-"))
}

/// The whole report in Markdown.
pub(crate) fn write(found: &Findings, uploads: &[String]) -> String {
    let ask = found.ask;
    let title = capital(&subject_and_kind(ask, uploads));
    let request = text::ellipsis(&ask.text.split_whitespace().collect::<Vec<_>>().join(" "), 300);
    let mut out = vec![format!("> {}\n\n# {}\n", ask.say("written"), title)];
    out.push(format!("**{}** {request}  \n**{}** {}", ask.say("request"), ask.say("sources"), found.names()));
    let mut section = |heading: &str, lines: Vec<String>| {
        let text = lines.join("\n");
        if !text.trim().is_empty() {
            out.push(format!("\n## {}\n\n{}", ask.say(heading), text.trim_start()));
        }
    };
    section(ask.task, main_part(found, usize::MAX));
    for (name, quotes) in &found.sections {
        let more = match *name {
            FIGURES => found.tables.iter().map(|at| table(found, *at)).collect(),
            OPEN => [gaps(found), vec![format!("- {}", ask.say("by-rules"))]].concat(),
            _ => Vec::new(),
        };
        section(name, bullets(found, quotes).into_iter().chain(more).collect());
    }
    section("not-used", failures(found.documents));
    out.join("\n") + "\n"
}

fn bullets(found: &Findings, quotes: &[usize]) -> Vec<String> {
    quotes.iter().map(|at| format!("- {}", found.quote(*at))).collect()
}

fn failures(documents: &[Document]) -> Vec<String> {
    let failed = documents.iter().filter_map(|document| Some((&document.name, document.failure.as_ref()?)));
    failed.map(|(name, why)| format!("- {name}: {why}")).collect()
}

/// The themes with up to so many quotes of each.
fn main_part(found: &Findings, each: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (theme, number) in found.themes.iter().zip(1..) {
        let mut quotes: Vec<usize> = theme.quotes.iter().take(each).copied().collect();
        if theme.mentions > 0 {
            let mentions = found.ask.say_of("mentions", &theme.mentions.to_string());
            lines.push(format!("\n### {number}. {} ({mentions})\n", theme.title));
        } else {
            quotes.sort_by_key(|at| if found.ask.wanted.is_some() { 0 } else { *at });
            lines.push(format!("\n### {}\n", theme.title).replace("\n### \n", ""));
        }
        lines.extend(row(found, theme).map(|row| format!("- {row}")));
        lines.extend(bullets(found, &quotes));
        lines
            .extend((quotes.is_empty() && theme.row.is_none()).then(|| format!("- {}", found.ask.say("nothing-here"))));
    }
    if lines.is_empty() { no_sentence(found) } else { lines }
}

/// The table row that gives the theme.
fn row(found: &Findings, theme: &Theme) -> Option<String> {
    let (rest, at) = theme.row.as_ref()?;
    let table = &found.corpus.tables[*at];
    Some(format!("{rest} {}", found.cite(table.source, &table.place)))
}

/// What stands for sentences where there are none: each table, named once.
fn no_sentence(found: &Findings) -> Vec<String> {
    let line = |at: &usize| {
        let table = &found.corpus.tables[*at];
        let rows = found.ask.say_of("rows", &(table.rows.len() - 1).to_string());
        format!("- {}: {}; {rows}", caption(found, table), table.rows[0].join(", "))
    };
    let lines = found.tables.iter().map(line);
    let why = if found.off_topic { "off-topic" } else { "no-sentence" };
    if found.tables.is_empty() { vec![found.ask.say(why).to_owned()] } else { lines.collect() }
}

fn caption(found: &Findings, table: &Table) -> String {
    format!("{} {}", found.ask.say("table"), found.cite(table.source, &table.place))
}

fn table(found: &Findings, at: usize) -> String {
    let table = &found.corpus.tables[at];
    let width = table.rows.iter().map(Vec::len).max().unwrap_or(0).min(MAX_COLUMNS);
    let row = |cells: &Vec<String>| {
        let cells = (0..width).map(|at| cells.get(at).map_or("", |cell| text::head(cell, 80)));
        format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut lines: Vec<String> = table.rows.iter().take(MAX_ROWS + 1).map(row).collect();
    lines.insert(1, format!("|{}", " --- |".repeat(width)));
    if table.rows.len() > MAX_ROWS + 1 {
        lines.push(format!("\n{}", found.ask.say_of("more-rows", &(table.rows.len() - MAX_ROWS - 1).to_string())));
    }
    format!("\n{}\n\n{}", caption(found, table), lines.join("\n"))
}

/// What the report or the answer does not have, said plainly.
fn gaps(found: &Findings) -> Vec<String> {
    let (ask, documents) = (found.ask, found.documents.iter().filter(|document| document.failure.is_none()));
    // Pairs of Han characters are too often no words.
    let missing = (!found.missing.is_empty() && !ask.chinese).then(|| ask.say_of("missing", &found.missing.join(", ")));
    let beyond = ["translation", "advice"].into_iter().filter(|part| ask.is(part));
    let mut gaps: Vec<String> = beyond.map(|part| ask.say_of("beyond", ask.say(part))).chain(missing).collect();
    let alone = ask.task == COMPARE && documents.clone().count() < 2;
    gaps.extend(alone.then(|| ask.say_of("alone", &found.names())));
    for document in documents {
        gaps.extend(document.cut.then(|| ask.say_of("too-long", &document.name)));
        let formulas = document.lines.iter().any(|(_, line)| has("formulas", line));
        gaps.extend(formulas.then(|| ask.say_of("formulas", &document.name)));
        let notes = document.lines.iter().filter(|(_, line)| has("note", line));
        gaps.extend(notes.map(|(_, note)| format!("{}: {note}", document.name)));
    }
    gaps.iter().map(|gap| format!("- {gap}")).collect()
}

/// The answer after a report was written, or in its place; `last` says where the report is or why there is none.
pub(crate) fn summary(found: &Findings, last: &str) -> String {
    let ask = found.ask;
    let mut lines = vec![ask.say("answered").to_owned(), String::new()];
    lines.push(format!("{}:\n", ask.say_of("from", &found.names())));
    let themes: Vec<&Theme> = found.themes.iter().filter(|theme| theme.mentions > 0).collect();
    lines.extend(themes.iter().map(|theme| {
        let quote = || theme.quotes.first().map(|at| found.quote(*at)).unwrap_or_default();
        format!("- **{}**: {}", theme.title, row(found, theme).unwrap_or_else(quote))
    }));
    if themes.is_empty() {
        let each = if ask.task == LIST { usize::MAX } else { MAX_POINTS.div_ceil(found.themes.len().max(1)) };
        lines.push(main_part(found, each).join("\n").trim_start().to_owned());
    }
    lines.push(String::new());
    lines.extend(gaps(found));
    lines.extend(failures(found.documents).iter().map(|line| format!("{} {line}", ask.say("not-used"))));
    lines.push(last.to_owned());
    lines.join("\n").trim_end().to_owned()
}

/// None of the files could be read.
pub(crate) fn unreadable(ask: &Ask, documents: &[Document]) -> String {
    format!("{}\n\n{}\n{}", ask.say("answered"), ask.say("no-report"), failures(documents).join("\n"))
}

/// What this model is, and how to get a real one; `why` names what it could not do.
pub(crate) fn honest(ask: &Ask, why: &str) -> String {
    format!("{}\n\n{}\n\n{}", ask.say(why), ask.say("about"), ask.say("configure")).trim_start().to_owned()
}

/// For requests of the harness itself, which offer no tools: a title, or the top sentences.
pub(crate) fn plain(ask: &Ask) -> String {
    let start = text::head(&ask.text, 400).to_lowercase();
    if start.contains("json array") {
        return "[]".to_owned();
    }
    if start.contains("title") || start.contains("标题") {
        let said = ["User:", "Human:", "用户："].iter().find_map(|mark| ask.text.split_once(mark));
        let said = said.map_or(&*ask.text, |(_, said)| said).split("Assistant:").next().unwrap_or_default();
        let title = said.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
        return text::head(title.trim_matches(|c: char| !c.is_alphanumeric()), 50).to_owned();
    }
    let mut document = Document::default();
    document.take(1, &ask.text, false);
    let corpus = Corpus::new(&[document], &Ask::new(""));
    let mut chosen = corpus.pick(corpus.prose(|_, _| true), 5);
    chosen.sort_unstable();
    if corpus.units.len() < 3 || chosen.is_empty() {
        return honest(ask, "");
    }
    chosen.iter().map(|at| corpus.units[*at].text.as_str()).collect::<Vec<_>>().join(" ")
}
