//! Words the rules know, and how words are cut and reduced.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// A pattern written in this crate. Word boundaries are ASCII ones: Unicode ones are slow on text in other scripts.
#[expect(clippy::expect_used, reason = "every pattern is a literal, and the tests compile each of them")]
pub(crate) fn pattern(literal: &str) -> Regex {
    Regex::new(&literal.replace(r"\b", r"(?-u:\b)")).expect("a literal pattern compiles")
}

/// `static NAME: Regex` from a literal.
macro_rules! patterns {
    ($($name:ident = $text:expr;)*) => {
        $(pub(crate) static $name: std::sync::LazyLock<regex::Regex> =
            std::sync::LazyLock::new(|| $crate::lexicon::pattern($text));)*
    };
}
pub(crate) use patterns;

patterns! {
    CAUSE = r"(?i)\b(because|due to|owing to|le(?:d|ad|ads) to|caus(?:ed|es|ing)|cause of|as a result|therefore|that is why|that's why|the (?:main |real )?reasons?|since (?:the|then|our|we)|after (?:the|we|you|they|our|your|that)|driven by|blam(?:e|ed|es)|which meant|result(?:ed|s|ing) (?:in|from)|so (?:we|they|he|she) )|原因|因为|由于|导致|造成|因此|所以|致使";
    LOSS = r"(?i)\b(lost|los(?:e|es|ing|s|ses)|delay\w*|late|later|declin\w+|drop\w*|fell|fall(?:en|ing)?|down|fewer|complain\w*|problems?|fail\w*|miss(?:ed|ing)|short(?:age|ages)|out of stock|too (?:expensive|high|slow|late|long|dear|often|few)|cheaper|cancel\w*|reduc\w+|worse|competitors?|unhappy|broken|defect\w*|no longer|unable|lack\w*|stopped|switch\w*|abnormal\w*|elevated|below|exceed\w*|went (?:to|over)|mov(?:ed|ing) to|left)\b|延迟|延期|推迟|下降|下滑|减少|流失|投诉|问题|缺货|不足|亏损|取消|故障|偏高|偏低|异常";
    CONTRAST = r"(?i)\b(but|however|although|instead|whereas|not because|despite|on the other hand)\b|但是|然而|不过|却";
    FIGURE = r"(?i)[€$£¥]\s?\d|\d[\d.,]*\s?(?:%|percent\b|per cent\b|€|eur\b|usd\b|euros?\b|dollars?\b|k\b|million\b|billion\b|units?\b|weeks?\b|days?\b|hours?\b|months?\b|customers?\b|orders?\b|mg\b|mg/|g/|ml\b|kg\b|km\b|°c|mmol|万|亿|元|天|周|个|台|件|人|倍)";
    DENIAL = r"(?i)\b(?:do(?:es)? not (?:really )?explain|no (?:\w+ )?cause\b|(?:is|was|are|were) not (?:the|a|to) (?:\w+ )?(?:story|reason|cause|problem|blame)|ruled? out|nothing to do with)|不是[^唯]{0,4}原因|与.{0,12}无关|排除";
    PROPOSED = r"(?i)\b(?:propos\w+|recommend\w+|next steps|action (?:items|points)|actions|measures|to ?-?do)\b|建议|措施|行动|待办|下一步";
    UNDECIDED = r"(?i)\b(?:open (?:questions|points|issues)|unknowns|limitations|unresolved)\b|未决|待定|待确认|局限|遗留";
    CAUSE_COLUMN = r"(?i)^\W*(?:(?:root |main )?(?:causes?|reasons?)|factors?|drivers?|主要原因|原因|因素)\W*$";
    PERSON = r"^(?:[\d.]+\s+)?((?:Dr\.? |Prof\.? )?\p{Lu}[\p{L}'’-]+(?: \p{Lu}[\p{L}'’-]+){1,2}|\p{Han}{2,4} \([^)]+\)),\s+\p{L}";
    OPEN = r"(?i)\b(unclear|unknown|not (?:yet )?(?:known|clear|decided|checked|measured|confirmed)|no (?:data|figures|information)|open (?:question|point)s?|to be (?:confirmed|decided|checked)|tbd|remains to|(?:has|have|needs?) to be (?:checked|confirmed|verified)|do(?:es)? not know|don't know)\b|待定|待确认|尚未|不清楚|未知|有待|尚不";
}

const STOP: &str = "a about above after again against all also am an and any are as at be been before being below between both but by can \
could did do does doing done down during each either else ever every few for from further get gets getting go goes going gone got had has have \
having he her here hers him his how i if in into is it its itself just let like made make makes many may me might more most much must my near \
neither no nor not now of off often on once one only or other our ours out over own per put quite rather s same say says said she should since \
so some still such t than that the their theirs them then there these they thing this those though three through to too told two under until up \
upon us very was we well went were what when where whether which while who whom whose why will with within without would yes yet you your yours \
mr mrs ms dr because due however although therefore also yes ok okay";
/// Words about the task, not about the subject.
const TASK: &str = "find main reason cause write review report file document attach attachment upload please summarize summarise summary brief \
overview analysis analyze analyse list extract enumerate compare comparison difference give show tell create prepare draft produce explain read \
look use based short long detail detailed important key point points want need help pdf text page pages note notes content contents save name \
markdown paragraph sentence bullet table out following information question answer me major top most common all describe what";
/// Words too general to name a theme.
const GENERIC: &str = "customer client company people person year month quarter week day time number percent january february march april may june \
july august september october november december monday tuesday wednesday thursday friday first second third last next new old good bad big small \
high low part way lot bit case thing kind reason result cause fact order sale sales today yesterday think know see take took come came back \
around almost already another anything something someone everybody everyone never always really main half least end start problem issue business \
interview team market region share product section manager asked simply want wanted need needed year's eur euro million thousand visit call";
const IRREGULAR: &str = "fell:fall fallen:fall lost:lose loss:lose losses:lose losing:lose rose:rise risen:rise grew:grow grown:grow growth:grow bought:buy \
sold:sell left:leave began:begin paid:pay cheaper:cheap cheapest:cheap later:late lower:low higher:high worse:bad worst:bad better:good best:good \
men:man women:woman children:child people:people analyses:analysis reviews:review";
/// Words for one subject: they widen a query and hold a theme together.
const SUBJECTS: &[&str] = &[
    "price pricing cost expensive cheap surcharge discount costly dear 价格 涨价 成本 报价 降价 折扣 单价",
    "deliver delivery late delay shipment shipping backorder logistics transport warehouse 交付 延迟 延期 缺货 物流 发货 交货 供货 库存 推迟",
    "competitor competition rival 竞争 对手 竞品",
    "quality defect defective faulty broken return warranty 质量 缺陷 瑕疵 次品 退货",
    "support service hotline helpdesk respond response 服务 客服 支持 响应 售后",
    "staff staffing vacancy turnover vacant hire resign headcount understaffed 人员 招聘 离职 人手 缺编 员工",
    "demand season seasonal recession economy 需求 市场 季节 经济",
    "budget funding cut saving 预算 资金 经费",
    "website webshop shop online app software system server 系统 网站 软件 服务器 平台",
    "advertise advertising marketing campaign promotion 广告 营销 推广 宣传",
    "train training onboarding 培训",
    "weather rain storm heat flood 天气 暴雨 高温",
];
/// Words for one movement: they widen a query only.
const MOVES: &[&str] = &[
    "fall drop decline decrease shrink lose slump reduce reduction fewer 下降 下滑 减少 流失 下跌",
    "rise grow increase gain improve 上升 增长 增加 提高 上涨",
    "sale sell revenue order turnover 销售 销量 营收 订单 收入",
];

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split_ascii_whitespace()
}
fn stems(list: &str) -> BTreeSet<String> {
    words(list).map(stem).collect()
}

static STOP_WORDS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| words(STOP).collect());
static TASK_STEMS: LazyLock<BTreeSet<String>> = LazyLock::new(|| stems(TASK));
static GENERIC_STEMS: LazyLock<BTreeSet<String>> = LazyLock::new(|| stems(GENERIC));
static IRREGULARS: LazyLock<BTreeMap<&str, &str>> =
    LazyLock::new(|| words(IRREGULAR).filter_map(|pair| pair.split_once(':')).collect());
static SUBJECT_OF: LazyLock<BTreeMap<String, usize>> = LazyLock::new(|| group_index(SUBJECTS));
static MOVE_OF: LazyLock<BTreeMap<String, usize>> = LazyLock::new(|| group_index(MOVES));

fn group_index(groups: &[&str]) -> BTreeMap<String, usize> {
    groups.iter().enumerate().flat_map(|(at, group)| words(group).map(move |word| (stem(word), at))).collect()
}

/// Whether the stem is about the task (`find`, `report`).
pub(crate) fn is_task(stem: &str) -> bool {
    TASK_STEMS.contains(stem)
        || ["总结", "报告", "原因", "文件", "附件", "分析", "请总", "主要", "列出", "一份", "写一"].contains(&stem)
}
/// Whether the stem is too general to name a theme.
pub(crate) fn is_generic(stem: &str) -> bool {
    GENERIC_STEMS.contains(stem) || is_task(stem)
}
/// Number of the subject that the stem belongs to.
pub(crate) fn subject(stem: &str) -> Option<usize> {
    SUBJECT_OF.get(stem).copied()
}
/// Whether two stems mean about the same.
pub(crate) fn akin(a: &str, b: &str) -> bool {
    let same = |index: &BTreeMap<String, usize>| index.get(a).is_some_and(|at| index.get(b) == Some(at));
    a == b || same(&SUBJECT_OF) || same(&MOVE_OF)
}

pub(crate) fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// A word reduced to what its forms share: `deliveries` and `delivery`, `fell` and `falls`.
pub(crate) fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    if let Some(base) = IRREGULARS.get(word.as_str()) {
        return (*base).to_owned();
    }
    let mut base = word.trim_end_matches("'s").trim_end_matches("’s").to_owned();
    let long = |base: &str, min: usize| base.chars().count() >= min;
    if let Some(cut) = base.strip_suffix("ies").filter(|_| long(&base, 5)) {
        base = format!("{cut}y");
    } else if base.ends_with('s') && long(&base, 4) && !["ss", "us", "is"].iter().any(|end| base.ends_with(end)) {
        base.pop();
    }
    let cut = ["ing", "ed"].iter().find_map(|end| base.strip_suffix(end)).filter(|cut| long(cut, 3)).map(str::to_owned);
    if let Some(cut) = cut {
        let mut tail = cut.chars().rev();
        let doubled = matches!((tail.next(), tail.next()), (Some(a), Some(b)) if a == b && !"lsz".contains(a));
        base = cut;
        if doubled {
            base.pop();
        }
    }
    if long(&base, 5) && base.ends_with('e') {
        base.pop();
    }
    base
}

/// The words of a text as written, without numbers and stop words; a run of Han characters gives its bigrams.
pub(crate) fn surfaces(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut run = String::new();
    let flush = |run: &mut String, found: &mut Vec<String>| {
        if run.chars().next().is_some_and(is_han) {
            let chars: Vec<char> = run.chars().collect();
            found.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if run.chars().any(char::is_alphabetic) && run.chars().count() > 1 {
            let word = run.trim_matches(['\'', '’']);
            if !STOP_WORDS.contains(word.to_lowercase().as_str()) {
                found.push(word.to_owned());
            }
        }
        run.clear();
    };
    for c in text.chars() {
        let joins = c.is_alphanumeric() || (matches!(c, '\'' | '’') && !run.is_empty());
        if !joins || run.chars().next_back().is_some_and(|last| is_han(last) != is_han(c)) {
            flush(&mut run, &mut found);
        }
        if joins {
            run.push(c);
        }
    }
    flush(&mut run, &mut found);
    found
}

/// [`surfaces`], reduced.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    surfaces(text).iter().map(|word| stem(word)).collect()
}

#[cfg(test)]
#[path = "lexicon_tests.rs"]
mod tests;
