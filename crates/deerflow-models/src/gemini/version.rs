//! What a Gemini model takes, by its version (<https://ai.google.dev/gemini-api/docs/thinking>).

/// How a model is told how much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thinking {
    /// It does not think.
    Never,
    /// A number of tokens.
    Budget {
        /// The smallest that is accepted; 0 turns thinking off.
        least: u32,
    },
    /// A level; there is none that turns thinking off.
    Level,
}

/// `gemini-2.5-flash` is 2.5, `gemini-3-pro-preview` is 3.0. `None` for names without a number, which stand for the newest.
fn version(model: &str) -> Option<(u32, u32)> {
    let model = model.to_ascii_lowercase();
    let (_, rest) = model.split_once("gemini-")?;
    let number = |part: &str| {
        let (major, minor) = part.split_once('.').unwrap_or((part, "0"));
        // A longer number is a date.
        let major = major.parse().ok().filter(|_| major.len() <= 2)?;
        Some((major, minor.parse().unwrap_or(0)))
    };
    rest.split('-').find_map(number).filter(|(major, _)| *major > 0)
}

/// Whether it is a Gemini model of at least this version.
fn at_least(model: &str, least: (u32, u32)) -> bool {
    is_gemini(model) && version(model).is_none_or(|version| version >= least)
}

fn is_gemini(model: &str) -> bool {
    model.to_ascii_lowercase().contains("gemini")
}

/// How `model` is told how much to think.
pub(super) fn thinking(model: &str) -> Thinking {
    if at_least(model, (3, 0)) {
        Thinking::Level
    } else if at_least(model, (2, 5)) {
        Thinking::Budget { least: if model.to_ascii_lowercase().contains("pro") { 128 } else { 0 } }
    } else {
        Thinking::Never
    }
}

/// Whether a function response may hold images.
pub(super) fn images_in_results(model: &str) -> bool {
    at_least(model, (3, 0))
}

/// Whether the first call of a step is refused without a thought signature.
pub(super) fn wants_signatures(model: &str) -> bool {
    at_least(model, (3, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_names_without_one_are_the_newest() {
        assert_eq!(version("gemini-2.5-flash-lite-preview-09-2025"), Some((2, 5)));
        assert_eq!(version("models/gemini-3-pro-preview"), Some((3, 0)));
        assert_eq!(version("gemini-flash-latest"), None);
        assert_eq!(version("gemini-pro-latest-2025"), None);
        assert_eq!(thinking("gemini-2.5-pro"), Thinking::Budget { least: 128 });
        assert_eq!(thinking("gemini-2.5-flash"), Thinking::Budget { least: 0 });
        assert_eq!(thinking("gemini-3.5-flash"), Thinking::Level);
        assert_eq!(thinking("gemini-flash-latest"), Thinking::Level);
        assert_eq!(thinking("gemini-2.0-flash"), Thinking::Never);
        assert_eq!(thinking("gemma-4-27b-it"), Thinking::Never);
        assert!(
            wants_signatures("gemini-4-flash") && !wants_signatures("gemini-2.5-pro") && !images_in_results("gemma-4")
        );
    }
}
