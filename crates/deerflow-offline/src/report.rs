//! The report and its name.

use crate::conversation::{Document, file_name};
use crate::findings::Findings;
use crate::lexicon::{akin, is_generic, is_han, is_task, listed, stem, surfaces};
use crate::request::{Ask, DELIVERABLE, NAMED_FILE, Task};
use deerflow_core::text;

const MAX_ROWS: usize = 20;

/// `sales`, `review`: what the report is about and what it is.
fn subject_and_kind(ask: &Ask, uploads: &[String]) -> (String, String) {
    let kind = DELIVERABLE
        .find_iter(&ask.text)
        .last()
        .map_or(ask.say("report", "报告").to_owned(), |m| m.as_str().to_lowercase());
    let stem_of = |path: &String| {
        let name = file_name(path);
        name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned()
    };
    let name = uploads.first().map(stem_of).unwrap_or_default();
    if name.chars().any(is_han) {
        let han: String = name.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect();
        return (text::head(&han, 20).to_owned(), kind);
    }
    let telling = |word: &String| !is_task(&stem(word)) && !listed("dull", word);
    let own = surfaces(&name.replace(['_', '-', '.'], " ")).into_iter().find(telling);
    let asked = || {
        ask.terms
            .iter()
            .map(|(word, _)| word)
            .find(|word| !is_generic(&stem(word)) && !word.chars().any(is_han))
            .cloned()
    };
    let subject = own.or_else(asked).map(|word| word.to_lowercase()).filter(|word| *word != kind);
    (subject.unwrap_or_else(|| ask.say("file", "文件").to_owned()), kind)
}

/// Where the report goes: the name in the request, else one made of subject and kind.
pub(crate) fn path(ask: &Ask, uploads: &[String]) -> String {
    let attached = |name: &str| uploads.iter().any(|path| file_name(path) == name);
    let named = NAMED_FILE.captures_iter(&ask.text).map(|found| found[1].to_owned()).find(|name| !attached(name));
    let (subject, kind) = subject_and_kind(ask, uploads);
    format!("/mnt/user-data/outputs/{}", named.unwrap_or_else(|| format!("{subject}-{kind}.md")))
}

/// The whole report in Markdown.
pub(crate) fn write(found: &Findings, uploads: &[String]) -> String {
    let ask = found.ask;
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    line(ask.say(
        "> Written by DeerFlow's built-in offline model: extracted by rules from the attached files, not by a language model.",
        "> 由 DeerFlow 内置离线模型撰写：按规则从所附文件中摘录，并非由语言模型生成。",
    ));
    let (subject, kind) = subject_and_kind(ask, uploads);
    let title = if ask.chinese { format!("{subject}：{kind}") } else { capital(&format!("{subject} {kind}")) };
    line(&format!("\n# {title}\n"));
    line(&format!("{} {}  ", ask.say("**Request:**", "**请求：**"), text::ellipsis(&one_line(&ask.text), 300)));
    line(&format!("{} {}", ask.say("**Sources:**", "**来源：**"), found.names(true).join(", ")));
    if found.off_topic {
        line(&format!("\n{}", ask.say(
            "Nothing in the files matches the words of the request. What follows is a short general summary instead.",
            "文件中没有与请求字词相符的内容，以下改为简短的一般性摘要。",
        )));
    }
    main_part(found, &mut line);
    if !found.figures.is_empty() || !found.tables.is_empty() {
        line(ask.say("\n## Figures\n", "\n## 数据\n"));
        for at in &found.figures {
            line(&format!("- {}", found.quote(*at)));
        }
        for at in &found.tables {
            table(found, *at, &mut line);
        }
    }
    if !found.voices.is_empty() && ask.task != Task::Compare {
        line(ask.say("\n## Who said it\n", "\n## 各方说法\n"));
        for (name, at) in &found.voices {
            line(&format!("- **{name}:** {}", found.quote(*at)));
        }
    }
    for (title, quotes) in [
        (ask.say("Ruled out by the sources", "来源排除的原因"), &found.denials),
        (ask.say("What the sources propose", "来源提出的建议"), &found.proposals),
    ] {
        if !quotes.is_empty() {
            line(&format!("\n## {title}\n"));
            quotes.iter().for_each(|at| line(&format!("- {}", found.quote(*at))));
        }
    }
    line(ask.say("\n## Open questions and what is not covered\n", "\n## 未决问题与未涵盖内容\n"));
    for at in &found.open {
        line(&format!("- {}", found.quote(*at)));
    }
    for gap in gaps(found) {
        line(&format!("- {gap}"));
    }
    let failed: Vec<&Document> = found.documents.iter().filter(|document| document.failure.is_some()).collect();
    if !failed.is_empty() {
        line(ask.say("\n## Not used\n", "\n## 未使用\n"));
        for document in failed {
            line(&format!("- {}: {}", document.name, document.failure.as_deref().unwrap_or_default()));
        }
    }
    out
}

fn main_part(found: &Findings, line: &mut impl FnMut(&str)) {
    let ask = found.ask;
    let sources = found.names(true).len();
    if !found.themes.is_empty() {
        line(ask.say("\n## Main reasons", "\n## 主要原因"));
        for (number, theme) in found.themes.iter().enumerate() {
            line(&format!("\n### {}. {} ({})\n", number + 1, theme.title, mentions(ask, theme.mentions)));
            if let Some((rest, at)) = &theme.row {
                let table = &found.corpus.tables[*at];
                line(&format!("- {rest} {}", found.cite(table.source, &table.place)));
            }
            for at in &theme.quotes {
                line(&format!("- {}", said(found, *at)));
            }
        }
        if !found.points.is_empty() {
            line(ask.say("\n### Also given as a cause\n", "\n### 其他提到的原因\n"));
        }
    } else {
        line(match ask.task {
            _ if found.off_topic => ask.say("\n## Summary", "\n## 摘要"),
            Task::Reasons => ask.say("\n## Main reasons", "\n## 主要原因"),
            Task::Summary => ask.say("\n## Summary", "\n## 摘要"),
            Task::List => ask.say("\n## Extracted points", "\n## 摘录要点"),
            Task::Compare => ask.say("\n## What each source says", "\n## 各来源内容"),
            Task::Question => ask.say("\n## What the files say", "\n## 文件内容"),
        });
        if found.points.is_empty() {
            line(&format!("\n{}", ask.say("The files have no sentence that fits.", "文件中没有合适的句子。")));
        }
        line("");
    }
    let mut last = None;
    for at in &found.points {
        let source = found.corpus.units[*at].source;
        if sources > 1 && found.themes.is_empty() && last != Some(source) {
            line(&format!("{}### {}\n", if last.is_some() { "\n" } else { "" }, found.documents[source].name));
            last = Some(source);
        }
        line(&format!("- {}", said(found, *at)));
    }
}

/// A quote with its speaker.
fn said(found: &Findings, at: usize) -> String {
    let speaker = found.corpus.units[at].speaker.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    format!("{speaker}{}", found.quote(at))
}

pub(crate) fn mentions(ask: &Ask, count: usize) -> String {
    match (ask.chinese, count) {
        (true, _) => format!("提及 {count} 次"),
        (false, 1) => "1 mention".to_owned(),
        (false, _) => format!("{count} mentions"),
    }
}

fn table(found: &Findings, at: usize, line: &mut impl FnMut(&str)) {
    let table = &found.corpus.tables[at];
    let width = table.rows.iter().map(Vec::len).max().unwrap_or(0).min(12);
    let row = |cells: &Vec<String>| {
        let cells = (0..width).map(|at| cells.get(at).map_or("", |cell| text::head(cell, 80)));
        format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
    };
    line(&format!("\n{} {}\n", found.ask.say("Table", "表"), found.cite(table.source, &table.place)));
    line(&row(&table.rows[0]));
    line(&format!("|{}", " --- |".repeat(width)));
    table.rows.iter().skip(1).take(MAX_ROWS).for_each(|cells| line(&row(cells)));
    if let Some(more) = table.rows.len().checked_sub(MAX_ROWS + 1).filter(|more| *more > 0) {
        line(&format!(
            "\n{}",
            found.ask.say("… # more rows in the file.", "……文件中还有 # 行。").replace('#', &more.to_string())
        ));
    }
}

/// What the report does not have, said plainly.
fn gaps(found: &Findings) -> Vec<String> {
    let ask = found.ask;
    let mut gaps = Vec::new();
    // Words of movement have too many names to be missed.
    let vague = |stem: &str| is_generic(stem) || akin(stem, "fall") || akin(stem, "rise");
    let missing: Vec<&str> = found.missing.iter().copied().filter(|word| !vague(&stem(word))).collect();
    if !missing.is_empty() && !ask.chinese {
        gaps.push(format!("No source mentions: {}.", missing.join(", ")));
    }
    let single: Vec<&str> = found.themes.iter().filter(|t| t.mentions == 1).map(|t| t.title.as_str()).collect();
    if !single.is_empty() {
        gaps.push(format!("{} {}", ask.say("Resting on one sentence only:", "仅有一句依据："), single.join(", ")));
    }
    for part in ask.beyond() {
        gaps.push(format!(
            "{} {part}.",
            ask.say("The request also asks for something rules cannot give:", "请求中还包括规则无法完成的部分：")
        ));
    }
    for document in found.documents.iter().filter(|document| document.cut && document.failure.is_none()) {
        gaps.push(format!("{} {}", document.name, ask.say("was too long to be read to its end.", "太长，未能读完。")));
    }
    gaps.push(ask.say(
        "Sentences were chosen by rules: the order follows how often and how plainly the sources say a thing, and nobody has weighed whether it is true.",
        "句子由规则选出：顺序取决于来源提及的次数与明确程度，未对其真实性作判断。",
    ).to_owned());
    gaps
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
