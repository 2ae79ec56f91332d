//! What is said in the chat.

use crate::conversation::Document;
use crate::findings::Findings;
use crate::report::mentions;
use crate::request::Ask;
use crate::score::Corpus;
use deerflow_core::text;

/// First line of each final answer.
fn label(ask: &Ask) -> &str {
    ask.say(
        "**DeerFlow's built-in offline model** (rules, not a language model).",
        "**DeerFlow 内置离线模型**（按规则摘录，并非语言模型）。",
    )
}

/// What this model is, and how to get a real one; `why` says what it could not do.
pub(crate) fn honest(ask: &Ask, why: &str) -> String {
    let about = ask.say(
        "I am DeerFlow's built-in offline model: a set of rules, not a language model. I cannot answer open questions, chat, \
write code or translate. Attach a file (PDF, Office, text, table) and ask for a summary, a review, the main reasons, a list or a \
comparison: I read it, quote its key sentences and figures with page or line, and write a report.\n\n\
For everything else configure a real model: set `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`, or add one under `models:` in `config.yaml`.",
        "我是 DeerFlow 的内置离线模型：一组规则，而不是语言模型。我不能回答开放式问题、闲聊、写代码或翻译。请附上文件（PDF、Office、文本、表格），\
并要求总结、评述、主要原因、清单或对比：我会阅读文件，引用关键句子和数据并注明页码或行号，然后写出报告。\n\n\
其他任务请配置真正的模型：设置 `OPENAI_API_KEY` 或 `ANTHROPIC_API_KEY`，或在 `config.yaml` 的 `models:` 中添加。",
    );
    if why.is_empty() { about.to_owned() } else { format!("{why}\n\n{about}") }
}

/// The answer after a report was written, or in its place when `path` is `None`; `notes` are things that went wrong.
pub(crate) fn summary(found: &Findings, path: Option<&str>, notes: &[String]) -> String {
    let ask = found.ask;
    let mut lines = vec![label(ask).to_owned(), String::new()];
    if found.off_topic {
        let missing = found.missing.join(", ");
        lines.push(if ask.chinese {
            format!("{} 中没有与请求相符的内容。以下是其中的要点：", found.names(true).join("、"))
        } else {
            format!("I found nothing about “{missing}” in {}. What it does say:", found.names(true).join(", "))
        });
    } else {
        lines.push(format!("{} {}:", ask.say("From", "摘自"), found.names(true).join(", ")));
    }
    lines.push(String::new());
    if found.themes.is_empty() {
        let mut points = found.points.clone();
        if points.is_empty() {
            points.clone_from(&found.figures);
        }
        lines.extend(points.iter().take(6).map(|at| format!("- {}", found.quote(*at))));
    } else {
        lines.extend(found.themes.iter().take(6).map(|theme| {
            let quote = theme.quotes.first().map(|at| found.quote(*at)).unwrap_or_default();
            let row = |(rest, at): &(String, usize)| {
                let table = &found.corpus.tables[*at];
                format!("{rest} {}", found.cite(table.source, &table.place))
            };
            let what = theme.row.as_ref().map_or(quote, row);
            format!("- **{}** ({}): {what}", theme.title, mentions(ask, theme.mentions))
        }));
    }
    if lines.last().is_some_and(String::is_empty) {
        lines.push(
            ask.say(
                "- The files hold only tables or fragments; no sentence fits.",
                "- 文件中只有表格或片段，没有合适的句子。",
            )
            .to_owned(),
        );
    }
    lines.push(String::new());
    for document in found.documents {
        lines.extend(
            document
                .failure
                .as_ref()
                .map(|why| format!("{} {}: {why}.", ask.say("Not used:", "未使用："), document.name)),
        );
    }
    lines.extend(notes.iter().cloned());
    lines.extend(path.map(|path| format!("{} `{path}`", ask.say("Report:", "报告："))));
    lines.join("\n").trim_end().to_owned()
}

/// None of the files could be read.
pub(crate) fn unreadable(ask: &Ask, failures: &[(String, String)]) -> String {
    let mut lines = vec![label(ask).to_owned(), String::new()];
    lines.push(
        ask.say("I wrote no report, because there is nothing to quote:", "没有可引用的内容，因此未写报告：").to_owned(),
    );
    lines.extend(failures.iter().map(|(name, why)| format!("- {name}: {why}")));
    lines.join("\n")
}

/// For requests of the harness itself, which offer no tools: a title, or the top sentences.
pub(crate) fn plain(ask: &Ask) -> String {
    let lower = ask.text.to_lowercase();
    if lower.contains("json array") {
        return "[]".to_owned();
    }
    if text::head(&lower, 400).contains("title") || text::head(&lower, 200).contains("标题") {
        let from = ["User:", "Human:", "用户："]
            .iter()
            .find_map(|mark| ask.text.split_once(mark))
            .map_or(&*ask.text, |(_, rest)| rest);
        let line = from
            .trim()
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with('<'))
            .unwrap_or_default();
        let line = line.split("Assistant:").next().unwrap_or(line).trim_matches(['"', '\'', '`', '#', '*', ' ']);
        let words: Vec<&str> = line.split_whitespace().take(6).collect();
        let title = text::head(words.join(" ").trim_end_matches(['.', ',', '?', ':', ';', '。', '？']), 50).to_owned();
        return if title.is_empty() { ask.say("New conversation", "新对话").to_owned() } else { title };
    }
    let corpus = Corpus::new(&[Document::whole("", &ask.text)]);
    let marks = corpus.rank(&Ask::new(""));
    let chosen = corpus.pick(&marks, (0..marks.len()).filter(|at| marks[*at].prose), 5);
    if corpus.units.len() < 3 || chosen.is_empty() {
        return honest(ask, "");
    }
    chosen.iter().map(|at| corpus.units[*at].text.as_str()).collect::<Vec<_>>().join(" ")
}
