use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn commands(text: &str) -> Vec<&str> {
    let pieces = split(text).pieces.into_iter();
    let commands = pieces.filter_map(|piece| match piece {
        Piece::Command(text) => Some(text.trim()),
        _ => None,
    });
    commands.filter(|text| !text.is_empty()).collect()
}

#[test]
fn operators_split_with_and_without_blanks() {
    for text in ["a && b || c ; d", "a&&b||c;d", "a | b |& c\nd", "a&b&&c&\nd"] {
        assert_eq!(commands(text), ["a", "b", "c", "d"], "{text:?}");
    }
}

#[test]
fn what_is_quoted_or_redirected_does_not_split() {
    for text in [
        "echo 'a && b; c | d'",
        "echo \"a && b\"",
        "echo a\\;b\\&c",
        "echo $'it\\'s; fine'",
        "cmd >&2 2>&1 &>log <&3 >|f",
        "echo hi # it's; a comment",
        "echo $(a; b | c) `d; e`",
        "echo $((1 | 2)) $((x<<2))",
        "x=\"$(a; b)\"",
    ] {
        assert_eq!(commands(text), [text]);
        assert!(split(text).balanced, "{text}");
    }
}

#[test]
fn an_unclosed_quote_is_one_piece() {
    for text in ["echo 'hello; x", "echo \"a; b", "$(a; b", "`a; b", "echo $'a; b"] {
        let got = split(text);
        assert_eq!((got.pieces, got.balanced), (vec![Piece::Command(text)], false));
    }
}

#[test]
fn bodies_of_here_documents_are_data() {
    let text = "python3 << 'EOF' && b\nit's; fine\nEOF\nc";
    assert_eq!(
        split(text).pieces,
        [
            Piece::Command("python3 << 'EOF' "),
            Piece::Operator("&&"),
            Piece::Command(" b"),
            Piece::Operator("\n"),
            Piece::Heredoc { text: "it's; fine\nEOF\n", literal: true },
            Piece::Command("c"),
        ]
    );
    assert_eq!(commands("cat <<-A <<B\n\tx;y\n\tA\nz;w\nB\nd"), ["cat <<-A <<B", "d"]);
    assert_eq!(commands("cat <<EOF\na; b"), ["cat <<EOF"], "without its last line it goes to the end");
    assert_eq!(commands("cat <<< 'x'\nb"), ["cat <<< 'x'", "b"]);
    assert_eq!(commands("echo $((1<<2))\nb; c"), ["echo $((1<<2))", "b", "c"]);
    assert_eq!(commands("(( x = 1<<2 ))\nb; c"), ["(( x = 1<<2 ))", "b", "c"]);
}

#[test]
fn substitutions_are_found_where_the_shell_runs_them() {
    for (text, wanted) in [
        ("echo $(a $(b)) `c`", vec!["a $(b)", "c"]),
        ("echo \"$(a)\" '$(b)'", vec!["a"]),
        ("diff <(a) >(b)", vec!["a", "b"]),
        ("echo $(( $(a) + 1 ))", vec!["a"]),
        ("echo \\$(a)", vec![]),
    ] {
        assert_eq!(split(text).substitutions, wanted, "{text}");
    }
    assert_eq!(substitutions_in_quotes("it's $(a) and `b` \\$(c)"), ["a", "b"]);
}

#[test]
fn words_lose_their_quotes() {
    assert_eq!(words("r\"m\" -r'f' \\/ "), ["rm", "-rf", "/"]);
    assert_eq!(words("x=$(a b) \"$(c d)\" e''"), ["x=$(a b)", "$(c d)", "e"]);
    assert_eq!(words("a ''"), ["a", ""]);
    assert_eq!(words("a\\\nb"), ["ab"]);
}

fn shell() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "echo ", "rm -rf /", "'", "\"", "`", "$(", "$((", ")", "))", "(", "((", "<<EOF", "<<-'E'", "<<<", "\nEOF\n",
        "\n", ";", ";;", "&&", "||", "|", "|&", "&", ">&", "&>", "<(", "\\", "#", " ", "\t", "$'", "${x}", "王", "x=",
    ]);
    prop::collection::vec(prop_oneof![piece.prop_map(str::to_owned), "\\PC{0,3}"], 0..30)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_is_lost_and_nothing_panics(text in shell()) {
        let got = split(&text);
        let rebuilt: String = got.pieces.iter().map(|piece| match piece {
            Piece::Command(text) | Piece::Operator(text) | Piece::Heredoc { text, .. } => *text,
        }).collect();
        prop_assert_eq!(rebuilt, text.as_str());
        for body in got.substitutions {
            prop_assert!(text.contains(body));
        }
        substitutions_in_quotes(&text);
        normalise(&text);
        words(&text);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn deep_nesting_does_no_harm(opening in prop::sample::select(vec!["$(", "`", "\"$(", "<(", "(", "$(("]), times in 1usize..5000) {
        let text = opening.repeat(times);
        split(&text);
        words(&text);
        substitutions_in_quotes(&text);
    }
}
