//! What a Claude model takes, by its version
//! (<https://platform.claude.com/docs/en/build-with-claude/thinking>).

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

/// How a model is told not to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Off {
    /// `thinking.type: disabled`.
    Disabled,
    /// `thinking.type: between_tools`, the least there is.
    BetweenTools,
    /// By not saying anything: it does not think unless asked.
    Silence,
    /// Not at all: it always thinks, and `disabled` is refused. Only the effort can be lowered.
    Never,
}

/// How `model` is told not to think.
pub(super) fn off(model: &str) -> Off {
    let name = model.to_ascii_lowercase();
    let version = version(model).unwrap_or_default();
    let always = ["fable", "mythos"].iter().any(|family| name.contains(family));
    if name.contains("claude") && (always || (name.contains("opus") && version >= (5, 5))) {
        Off::Never
    } else if name.contains("sonnet") && version >= (5, 5) {
        Off::BetweenTools
    } else if ((4, 7)..(5, 0)).contains(&version) {
        Off::Silence
    } else {
        Off::Disabled
    }
}

/// Whether the model refuses to be made to call a tool.
pub(super) fn refuses_force(model: &str) -> bool {
    version(model).is_some_and(|version| version >= (5, 1))
}

/// Whether the model keeps its thoughts to itself unless `thinking.display` asks for them.
pub(super) fn hides_thinking(model: &str) -> bool {
    fixed_sampling(model)
}

/// The effort that `model` knows for `effort`.
pub(super) fn effort<'e>(model: &str, effort: &'e str) -> &'e str {
    match effort {
        "none" | "minimal" => "low",
        "xhigh" if !fixed_sampling(model) => "high",
        other => other,
    }
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

    #[test]
    fn each_generation_is_told_not_to_think_in_its_own_way() {
        assert_eq!(off("claude-sonnet-4-5"), Off::Disabled);
        assert_eq!(off("claude-opus-4-8"), Off::Silence);
        assert_eq!([off("claude-opus-5"), off("claude-haiku-5-5")], [Off::Disabled; 2]);
        assert_eq!([off("claude-opus-5-5"), off("claude-fable-5"), off("claude-mythos-preview")], [Off::Never; 3]);
        assert_eq!(off("claude-sonnet-5-5"), Off::BetweenTools);
        assert_eq!(off("kimi-k2"), Off::Disabled);
        assert!(refuses_force("claude-fable-5-1") && !refuses_force("claude-opus-5"));
        assert_eq!([effort("claude-opus-4-6", "xhigh"), effort("claude-opus-5", "xhigh")], ["high", "xhigh"]);
    }
}
