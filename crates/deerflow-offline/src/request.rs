//! What is asked for.

use crate::lexicon::{is_han, is_task, patterns, stem, surfaces};

patterns! {
    REASONS = r"(?i)\b(why|reasons?|causes?|caused|because|root cause|what led|explain)\b|原因|为什么|为何";
    COMPARE = r"(?i)\b(compar\w+|differences?|vs|versus)\b|对比|比较|区别";
    LIST = r"(?i)\b(list|extract|enumerate|action items|find all|all the)\b|列出|提取|清单|罗列";
    SUMMARY = r"(?i)\b(summar\w+|overview|tl;?dr|brief|digest|key (?:points|findings)|review|report|analy[sz]\w+|read)\b|总结|摘要|概述|概括|纪要|要点|报告|分析";
    WRITES = r"(?i)\b(write|create|prepare|draft|produce|make|summar\w+|review|report|brief|analy[sz]e)\b|写|撰写|生成|整理|总结|摘要|报告";
    ABOUT_FILES = r"(?i)\b(files?|documents?|attach\w*|uploads?|uploaded|pdf|spreadsheet|notes|report|slides)\b|文件|附件|文档|上传|表格";
    CANNOT = r"(?i)^\W*(?:please |can you |could you |would you |help me |i want you to )*(?:translat\w+|(?:write|create|generate|make|implement|fix|debug|refactor)\s+(?:\w+\s+){0,3}?(?:code|program|script|function|app|website|poem|song|story|joke|essay|tests?)\b|draw\b|paint\b|sing\b|search the (?:web|internet)|browse\b)|^.{0,6}翻译|写.{0,6}(?:代码|程序|脚本|诗|故事)|画一";
    SMALL_TALK = r"(?i)^\W*(?:hi|hello|hey|thanks?|thank you|good (?:morning|evening)|who are you|what are you|what can you do|how are you|help|你好|您好|谢谢|你是谁|你能做什么)\b.{0,40}$|^\W*(?:你好|您好|谢谢|你是谁)";
    TRANSLATES = r"(?i)\btranslat\w+|翻译";
    ADVISES = r"(?i)\b(recommend\w*|advice|suggest\w*|forecast\w*|predict\w*|should we)\b|建议|预测";
    NAMED_FILE = r"(?:(?i:\b(?:to|as|in|into|called|named|file)\b)|写到|写入|保存为|存为|到|为)\s*[`“'\x22]?(?:/mnt/user-data/outputs/)?([\w\p{Han}][\w\p{Han}.-]*\.(?:md|markdown|txt))\b";
    DELIVERABLE = r"(?i)\b(review|report|summary|analysis|brief|list)\b|(总结|摘要|报告|分析|清单|纪要)";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Reasons,
    Compare,
    List,
    Summary,
    Question,
}

/// The request, as far as rules see it.
pub(crate) struct Ask {
    pub(crate) text: String,
    pub(crate) task: Task,
    /// Answer in Chinese.
    pub(crate) chinese: bool,
    /// Words of the subject: as written and reduced.
    pub(crate) terms: Vec<(String, String)>,
    pub(crate) wants_report: bool,
    pub(crate) about_files: bool,
    /// All it asks for is out of reach.
    pub(crate) cannot: bool,
    pub(crate) small_talk: bool,
}

impl Ask {
    pub(crate) fn new(text: &str) -> Self {
        let han = text.chars().filter(|c| is_han(*c)).count();
        let letters = text.chars().filter(|c| c.is_alphabetic() && !is_han(*c)).count();
        let task =
            [(&REASONS, Task::Reasons), (&COMPARE, Task::Compare), (&LIST, Task::List), (&SUMMARY, Task::Summary)];
        let mut terms: Vec<(String, String)> = Vec::new();
        for word in surfaces(&NAMED_FILE.replace_all(text, " ")) {
            let stem = stem(&word);
            if !is_task(&stem) && terms.iter().all(|(_, known)| *known != stem) {
                terms.push((word, stem));
            }
        }
        Self {
            text: text.to_owned(),
            task: task.iter().find(|(words, _)| words.is_match(text)).map_or(Task::Question, |(_, task)| *task),
            chinese: han * 2 > letters,
            terms,
            wants_report: WRITES.is_match(text),
            about_files: ABOUT_FILES.is_match(text),
            cannot: CANNOT.is_match(text),
            small_talk: SMALL_TALK.is_match(text),
        }
    }

    /// One of two languages.
    pub(crate) fn say<'a>(&self, english: &'a str, chinese: &'a str) -> &'a str {
        if self.chinese { chinese } else { english }
    }

    /// Parts of the request that rules cannot do.
    pub(crate) fn beyond(&self) -> Vec<&str> {
        let parts = [
            (&*TRANSLATES, self.say("a translation", "翻译")),
            (&*ADVISES, self.say("advice or a forecast", "建议或预测")),
        ];
        parts.iter().filter(|(words, _)| words.is_match(&self.text)).map(|(_, part)| *part).collect()
    }
}
