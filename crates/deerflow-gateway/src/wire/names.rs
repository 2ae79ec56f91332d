//! File names in headers.

use deerflow_service::encoded;

/// Value of `Content-Disposition`; `kind` is `inline` or `attachment`. Any name is safe in it: one that is not plain ASCII is
/// there twice, as RFC 6266 §5 has it for clients that read the old form only.
pub(crate) fn disposition(kind: &str, name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '%') { c } else { '_' }).collect();
    if plain == name {
        return format!("{kind}; filename*=UTF-8''{}", encoded(name));
    }
    format!("{kind}; filename=\"{plain}\"; filename*=UTF-8''{}", encoded(name))
}

#[cfg(test)]
mod tests {
    use super::disposition;
    use pretty_assertions::assert_eq;

    #[test]
    fn no_name_can_break_out_of_a_header() {
        assert_eq!(disposition("inline", "a.txt"), "inline; filename*=UTF-8''a.txt");
        assert_eq!(
            disposition("inline", "a \"b\"\r\nX: 测.txt"),
            "inline; filename=\"a__b___X:__.txt\"; filename*=UTF-8''a%20%22b%22%0D%0AX%3A%20%E6%B5%8B.txt"
        );
    }
}
