//! Text as the full-text index sees it.
//!
//! The index cuts text into words at spaces and marks, which Chinese, Japanese and Korean do not write. So each of their
//! characters is a word of its own, in what is stored and in what is asked, and a word of a query is a phrase of them.

/// Words of a query that count.
const QUERY_WORDS: usize = 64;
/// Characters of a query that count.
const QUERY_CHARS: usize = 1000;

/// Whether a character belongs to a script that writes no spaces between words, or is read in syllables.
fn stands_alone(character: char) -> bool {
    matches!(character,
        '\u{3005}' | '\u{3007}' | '\u{3040}'..='\u{312f}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}')
}

/// The text with spaces around every character that stands alone.
pub(crate) fn spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len() + text.len() / 2);
    for character in text.chars() {
        if stands_alone(character) {
            spaced.push(' ');
            spaced.push(character);
            spaced.push(' ');
        } else {
            // The index reads a query up to the first NUL only.
            spaced.push(if character.is_control() { ' ' } else { character });
        }
    }
    spaced
}

/// The words of a query, in any language.
pub(crate) fn words(query: &str) -> Vec<String> {
    let query: String = query.chars().take(QUERY_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    query
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .take(QUERY_WORDS)
        .map(str::to_owned)
        .collect()
}

/// An expression of the index: rows that have `all` of these scopes, and in their body the words, each as a phrase, joined
/// by `operator`. Nothing in a word is an operator, since phrases are quoted.
pub(crate) fn expression(scopes: &[String], words: &[String], operator: &str) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let scopes: Vec<_> = scopes.iter().map(|scope| quoted(scope)).collect();
    let words: Vec<_> = words.iter().map(|word| quoted(&spaced(word))).collect();
    format!("scope : ({}) AND body : ({})", scopes.join(" AND "), words.join(operator))
}

/// At most `limit` characters of the text around the first of the words that is there.
pub(crate) fn excerpt(text: &str, words: &[String], limit: usize) -> String {
    // One character for one, so that positions stay.
    let fold = |text: &str| -> Vec<char> {
        text.chars().map(|c| c.to_lowercase().next().filter(|_| c.to_lowercase().count() == 1).unwrap_or(c)).collect()
    };
    let characters: Vec<char> = text.chars().collect();
    let folded = fold(text);
    let find = |word: &str| {
        let word = fold(word);
        (!word.is_empty()).then(|| folded.windows(word.len()).position(|window| window == word)).flatten()
    };
    let parts = || words.iter().flat_map(|word| word.split(|c: char| !c.is_alphanumeric()));
    let hit = words.iter().filter_map(|word| find(word)).min().or_else(|| parts().filter_map(find).min()).unwrap_or(0);
    // A third of it before the hit.
    let start = hit.saturating_sub(limit / 3).min(characters.len().saturating_sub(limit));
    characters[start..].iter().take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn characters_without_spaces_are_words_of_their_own() {
        assert_eq!(spaced("用GPT4模型 ok"), " 用 GPT4 模  型  ok");
        assert_eq!(words("  \"foo\" ( 模型 AND * -- bar:baz\0x"), ["\"foo\"", "模型", "AND", "bar:baz", "x"]);
        assert_eq!(
            expression(&["t1".into()], &["a\"b".into(), "模型".into()], " OR "),
            "scope : (\"t1\") AND body : (\"a\"\"b\" OR \" 模  型 \")"
        );
    }

    #[test]
    fn an_excerpt_shows_the_hit() {
        let text = format!("{}Needle{}", "é".repeat(5000), "界".repeat(5000));
        let shown = excerpt(&text, &["needle".into()], 600);
        assert_eq!(shown.chars().count(), 600);
        assert_eq!(shown.chars().position(|c| c == 'N'), Some(200));
        assert_eq!(excerpt("short", &["absent".into()], 600), "short");
        assert!(excerpt(&text, &["x-needle".into()], 600).contains("Needle"), "a part of the word counts too");
    }

    proptest! {
        #[test]
        fn an_excerpt_is_a_part_of_its_text(text in any::<String>(), word in any::<String>(), limit in 1usize..50) {
            let shown = excerpt(&text, &[word], limit);
            prop_assert!(text.contains(&shown) && shown.chars().count() == limit.min(text.chars().count()));
        }
    }
}
