//! The report, its name, and what is said in the chat.

use crate::conversation::Document;
use crate::corpus::Unit;
use crate::findings::{Findings, Theme, capital};
use crate::lexicon::{COMPARE, LIST, cue, has, is_listed, stem};
use deerflow_core::text;
use std::ops::Range;

/// Rows and columns of a table that are shown.
const MAX_ROWS: usize = 20;
const MAX_COLUMNS: usize = 12;
/// Points of the answer in the chat.
const MAX_POINTS: usize = 6;

/// The file's name: the one in the request, else what the source is about, as far as its own name tells, and what is
/// asked for (`sales-review.md`).
pub(crate) fn name(found: &Findings) -> String {
    let attached = |name: &&str| found.documents.iter().any(|document| document.name() == *name);
    let named = cue("named-file").captures_iter(&found.ask.text).filter_map(|found| found.get(1));
    if let Some(name) = named.map(|name| name.as_str()).find(|name| !attached(name)) {
        return name.to_owned();
    }
    let kind = cue("deliverable").find_iter(&found.ask.text).last().map_or(found.ask.say("kind"), |kind| kind.as_str());
    let source = found.documents[0].name();
    let source = source.rsplit_once('.').map_or(source, |(stem, _)| stem);
    let known = |word: &str| ["stop", "generic.task", "dull"].into_iter().any(|list| is_listed(list, &stem(word)));
    let telling = |word: &&str| word.contains(char::is_alphabetic) && *word != kind && !known(word);
    let words = source.split(|c: char| !c.is_alphanumeric()).filter(telling).take(3);
    let words: Vec<&str> = words.map(|word| text::head(word, 40)).chain([kind]).collect();
    words.join("-").to_lowercase() + ".md"
}

/// The whole report in Markdown.
pub(crate) fn write(found: &Findings) -> String {
    let ask = found.ask;
    let name = name(found).replace('-', " ");
    let title = capital(name.rsplit_once('.').map_or(name.as_str(), |(title, _)| title));
    let request = text::ellipsis(&ask.text.split_whitespace().collect::<Vec<_>>().join(" "), 300);
    let mut out = vec![format!("> {}\n\n# {}\n", ask.say("written"), title)];
    out.push(format!("**{}** {request}  \n**{}** {}", ask.say("request"), ask.say("sources"), names(found)));
    let mut section = |heading: &str, lines: Vec<String>| {
        let text = lines.join("\n");
        if !text.trim().is_empty() {
            out.push(format!("\n## {}\n\n{}", ask.say(heading), text.trim_start()));
        }
    };
    section(ask.task, main_part(found, usize::MAX));
    for (name, quotes) in &found.sections {
        let mut lines: Vec<String> = quotes.iter().map(|at| format!("- {}", found.quote(*at))).collect();
        match *name {
            "figures" => lines.extend(found.tables.iter().map(|at| shown(found, at))),
            "open" => lines.extend(gaps(found).into_iter().chain([format!("- {}", ask.say("by-rules"))])),
            _ => {}
        }
        section(name, lines);
    }
    section("not-used", failures(&found.failed));
    out.join("\n") + "\n"
}

fn names(found: &Findings) -> String {
    found.documents.iter().map(|document| document.name()).collect::<Vec<_>>().join(", ")
}

fn failures(documents: &[&Document]) -> Vec<String> {
    let failed = documents.iter().filter_map(|document| Some((document.name(), document.failure.as_ref()?)));
    failed.map(|(name, why)| format!("- {name}: {why}")).collect()
}

/// The themes with up to so many quotes of each.
fn main_part(found: &Findings, each: usize) -> Vec<String> {
    let ask = found.ask;
    let mut lines = Vec::new();
    for (theme, number) in found.themes.iter().zip(1..) {
        lines.extend(match theme.mentions {
            0 if theme.title.is_empty() => None,
            0 => Some(format!("\n### {}\n", theme.title)),
            many => Some(format!("\n### {number}. {} ({})\n", theme.title, ask.say_of("mentions", &many.to_string()))),
        });
        let mut best: Vec<usize> = theme.quotes.iter().take(each).copied().collect();
        best.sort_by_key(|at| if theme.mentions > 0 { 0 } else { *at });
        lines.extend(best.iter().map(|at| format!("- {}", member(found, theme, *at))));
        lines.extend(best.is_empty().then(|| format!("- {}", ask.say("nothing-here"))));
    }
    lines
}

/// A quote of the theme; a table row that gives its title goes on from there.
fn member(found: &Findings, theme: &Theme, at: usize) -> String {
    let quote = found.quote(at);
    quote.split_once(&format!(": {}; ", theme.title)).map_or(quote.clone(), |(_, rest)| rest.to_owned())
}

/// The start of a table.
fn shown(found: &Findings, table: &Range<usize>) -> String {
    let row = |unit: &Unit| {
        let cells: Vec<&str> = unit.cells.iter().take(MAX_COLUMNS).map(|cell| text::head(cell, 80)).collect();
        format!("| {} |", cells.join(" | "))
    };
    let units = &found.corpus.units[table.clone()];
    let mut lines: Vec<String> = units.iter().take(MAX_ROWS + 1).map(row).collect();
    lines.insert(1, format!("|{}", " --- |".repeat(units[0].cells.len().min(MAX_COLUMNS))));
    let more = units.len().saturating_sub(MAX_ROWS + 1);
    lines.extend((more > 0).then(|| format!("\n{}", found.ask.say_of("more-rows", &more.to_string()))));
    format!("\n{} {}\n\n{}", found.ask.say("table"), found.cite(table.start), lines.join("\n"))
}

/// What the report or the answer does not have, said plainly.
fn gaps(found: &Findings) -> Vec<String> {
    let ask = found.ask;
    let beyond = ["translation", "advice"].into_iter().filter(|part| has(part, &ask.text));
    let mut gaps: Vec<String> = beyond.map(|part| ask.say_of("beyond", ask.say(part))).collect();
    // Pairs of Han characters are too often no words.
    let missing = !found.missing.is_empty() && !ask.chinese;
    gaps.extend(missing.then(|| ask.say_of("missing", &found.missing.join(", "))));
    let alone = ask.task == COMPARE && found.documents.len() < 2;
    gaps.extend(alone.then(|| ask.say_of("alone", &names(found))));
    for document in &found.documents {
        let part = document.cut || document.next.is_some();
        gaps.extend(part.then(|| ask.say_of("too-long", document.name())));
        let notes = document.lines.iter().filter(|line| has("note", line));
        gaps.extend(notes.map(|note| format!("{}: {note}", document.name())));
    }
    gaps.iter().map(|gap| format!("- {gap}")).collect()
}

/// The answer after a report was written, or in its place; `last` says where the report is or why there is none.
pub(crate) fn summary(found: &Findings, last: &str) -> String {
    let ask = found.ask;
    let mut lines = vec![format!("{}\n\n{}:\n", ask.say("answered"), ask.say_of("from", &names(found)))];
    let themes = found.themes.iter().filter(|theme| theme.mentions > 0);
    let firsts = themes.filter_map(|theme| Some((theme, *theme.quotes.first()?)));
    lines.extend(firsts.map(|(theme, at)| format!("- **{}**: {}", theme.title, member(found, theme, at))));
    if found.themes.is_empty() {
        let why = ask.say(if found.off_topic { "off-topic" } else { "no-sentence" });
        lines.extend(found.tables.is_empty().then(|| why.to_owned()));
        lines.extend(found.tables.iter().map(|table| shown(found, table)));
    } else if lines.len() == 1 {
        let each = if ask.task == LIST { usize::MAX } else { MAX_POINTS.div_ceil(found.themes.len()) };
        lines.push(main_part(found, each).join("\n").trim_start().to_owned());
    }
    lines.push(String::new());
    lines.extend(gaps(found));
    lines.extend(failures(&found.failed).iter().map(|line| format!("{} {line}", ask.say("not-used"))));
    lines.push(last.to_owned());
    lines.join("\n").trim_end().to_owned()
}

/// None of the files could be read.
pub(crate) fn unreadable(found: &Findings) -> String {
    let ask = found.ask;
    format!("{}\n\n{}\n{}", ask.say("answered"), ask.say("no-report"), failures(&found.failed).join("\n"))
}
