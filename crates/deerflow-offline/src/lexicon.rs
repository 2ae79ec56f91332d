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

/// Lists of words, one a line: `name: word word …`. Lines of the same name are groups of words alike.
static LISTS: LazyLock<BTreeMap<&str, Vec<BTreeSet<&str>>>> = LazyLock::new(|| {
    let mut lists: BTreeMap<&str, Vec<BTreeSet<&str>>> = BTreeMap::new();
    for (name, words) in include_str!("lexicon.txt").lines().filter_map(|line| line.split_once(':')) {
        lists.entry(name).or_default().push(words.split_whitespace().collect());
    }
    lists
});
static IRREGULAR: LazyLock<BTreeMap<&str, &str>> =
    LazyLock::new(|| LISTS["irregular"][0].iter().filter_map(|pair| pair.split_once('=')).collect());
/// Words reduced, by list.
static STEMS: LazyLock<BTreeMap<&str, BTreeMap<String, usize>>> = LazyLock::new(|| {
    let index = |groups: &Vec<BTreeSet<&str>>| {
        let groups = groups.iter().enumerate();
        groups.flat_map(|(at, group)| group.iter().map(move |word| (stem(word), at))).collect()
    };
    ["task", "generic", "subject", "move"].iter().map(|name| (*name, index(&LISTS[name]))).collect()
});

/// Whether the list has this very word, in small letters.
pub(crate) fn listed(list: &str, word: &str) -> bool {
    LISTS.get(list).is_some_and(|groups| groups[0].contains(word.to_lowercase().as_str()))
}
/// Whether the stem is about the task (`find`, `report`) and not about the subject.
pub(crate) fn is_task(stem: &str) -> bool {
    STEMS["task"].contains_key(stem)
}
/// Whether the stem is too general to name a theme.
pub(crate) fn is_generic(stem: &str) -> bool {
    STEMS["generic"].contains_key(stem) || is_task(stem)
}
/// Number of the subject that the stem belongs to: words of one subject hold a theme together.
pub(crate) fn subject(stem: &str) -> Option<usize> {
    STEMS["subject"].get(stem).copied()
}
/// Whether two stems mean about the same.
pub(crate) fn akin(a: &str, b: &str) -> bool {
    let same = |list: &str| STEMS[list].get(a).is_some_and(|at| STEMS[list].get(b) == Some(at));
    a == b || same("subject") || same("move")
}

pub(crate) fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// A word reduced to what its forms share: `deliveries` and `delivery`, `fell` and `falls`.
pub(crate) fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    if let Some(base) = IRREGULAR.get(word.as_str()) {
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
            if !listed("stop", word) {
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
