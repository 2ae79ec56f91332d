//! What a Claude model takes, by its version.

/// Version of a Claude model: `claude-sonnet-4-6` is 4.6, `claude-3-7-sonnet-20250219` is 3.7, `claude-sonnet-5` is 5.0.
/// `None` for other models behind a messages endpoint.
fn version(model: &str) -> Option<(u32, u32)> {
    let model = model.to_ascii_lowercase();
    let (_, rest) = model.split_once("claude")?;
    // A longer number is a date.
    let number = |part: &str| part.parse::<u32>().ok().filter(|_| part.len() <= 2);
    let mut parts = rest.split(['-', '.', '@', ':', '_']).skip_while(|part| number(part).is_none());
    let major = number(parts.next()?)?;
    Some((major, parts.next().and_then(number).unwrap_or(0)))
}

/// Whether the model decides itself how much to think, and takes `output_config.effort`.
pub(super) fn adaptive(model: &str) -> bool {
    version(model).is_some_and(|version| version >= (4, 6))
}

/// Whether the model refuses a thinking budget, and `temperature`, `top_p` and `top_k`.
pub(super) fn fixed_sampling(model: &str) -> bool {
    version(model).is_some_and(|version| version >= (4, 7))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_stand_before_or_behind_the_family() {
        assert_eq!(version("claude-3-7-sonnet-20250219"), Some((3, 7)));
        assert_eq!(version("claude-opus-4-20250514"), Some((4, 0)));
        assert_eq!(version("us.anthropic.claude-sonnet-4-6-v1:0"), Some((4, 6)));
        assert_eq!(version("anthropic/claude-4.7-opus"), Some((4, 7)));
        assert_eq!(version("claude-sonnet-5"), Some((5, 0)));
        assert_eq!(version("claude-next"), None);
        assert_eq!(version("kimi-k2.6"), None);
        assert!(adaptive("claude-opus-4-6") && !fixed_sampling("claude-opus-4-6"));
        assert!(!adaptive("claude-haiku-4-5-20251001") && fixed_sampling("claude-fable-5-1"));
    }
}
