//! "Did you mean": the nearest of a list of names.

/// The known name nearest to `word`, if it is near enough to be a slip: the same word in another case or with other
/// separators (`apiKey`, `api-key` for `api_key`), or at most one edit in three letters, three in all.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = normalise(word);
    known
        .into_iter()
        .filter_map(|candidate| {
            let other = normalise(candidate);
            let distance = strsim::damerau_levenshtein(&plain, &other);
            let limit = (plain.chars().count().max(other.chars().count()) / 3).min(3);
            let limit = if plain.chars().count().min(other.chars().count()) < 3 { 0 } else { limit };
            (distance <= limit).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Lower case without separators: `apiKey`, `API-key` and `api_key` are one word. Long words are cut: distance is quadratic.
fn normalise(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).take(128).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["api_key", "base_url", "temperature", "name", "use", "top_p", "max_tokens"];
        let near = |word| nearest(word, known);
        assert_eq!(near("apiKey"), Some("api_key"));
        assert_eq!(near("BASE-URL"), Some("base_url"));
        assert_eq!(near("temprature"), Some("temperature"));
        assert_eq!(near("max_token"), Some("max_tokens"));
        assert_eq!(near("nam"), Some("name"));
        assert_eq!(near("n"), None);
        assert_eq!(near("organization"), None);
        assert_eq!(near(""), None);
        assert_eq!(near(&"x".repeat(100_000)), None);
    }
}
