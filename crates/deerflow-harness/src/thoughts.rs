//! Models that think aloud although nobody asked them to.

/// What the reply of a call beside the conversation says, without the thinking in front; empty when it only thinks.
pub(crate) fn spoken(reply: &str) -> &str {
    let said = reply.rsplit("</think>").next().unwrap_or_default().trim();
    if said.starts_with("<think>") { "" } else { said }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BR-026
    #[test]
    fn thinking_is_no_answer_and_ordinary_text_stays() {
        for (reply, said) in [
            ("<think>plan</think>\n\nSales in May", "Sales in May"),
            ("plan without a beginning</think> Sales", "Sales"),
            ("<think>a</think><think>b</think>c", "c"),
            ("<think>plan without an end", ""),
            ("<think>plan</think>", ""),
            ("  About the `<think>` tag ", "About the `<think>` tag"),
            ("", ""),
        ] {
            assert_eq!(spoken(reply), said, "{reply}");
        }
    }
}
