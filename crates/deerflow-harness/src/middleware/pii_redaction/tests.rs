use super::*;
use crate::middleware::TOOL_TRANSFORMS;
use crate::middleware::rig::{Canned, Ran, calling, run};
use deerflow_config::{Loader, Registry};
use deerflow_core::message::kwargs;
use deerflow_core::{ContentBlock, ThreadId, ToolOutput};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

fn config() -> PiiRedactionConfig {
    PiiRedactionConfig { enabled: true, ..PiiRedactionConfig::default() }
}

fn redactor() -> Redactor {
    Redactor::new(&config(), &RedactionKey::from_secret("a secret of the tests"))
}

/// The text with placeholders, their hashes left out.
fn shape(text: &str) -> String {
    let mut out = redactor().redact(text).into_owned();
    for kind in ["EMAIL", "API_KEY", "NATIONAL_ID", "CREDIT_CARD", "PHONE"] {
        let open = format!("[{kind}_");
        while let Some(at) = out.find(&open) {
            let end = at + open.len() + 12;
            assert!(out[at + open.len()..end].bytes().all(|b| b.is_ascii_hexdigit()) && out[end..].starts_with(']'));
            out.replace_range(at..=end, &format!("<{kind}>"));
        }
    }
    out
}

#[test]
fn mail_addresses() {
    for (text, wanted) in [
        ("ping alice@example.com today", "ping <EMAIL> today"),
        ("邮箱alice@example.com。", "邮箱<EMAIL>。"),
        ("<Ada.L+x@sub.example.co.uk>", "<<EMAIL>>"),
        ("ａｄａ＠ｅｘａｍｐｌｅ．ｃｏｍ", "<EMAIL>"),
        ("mail bob@example.org.", "mail <EMAIL>."),
        ("https://user:pass@host.example/x", "https://user:<EMAIL>/x"),
    ] {
        assert_eq!(shape(text), wanted);
    }
    for text in ["a@b", "git@github.com:owner/name.git", "left-pad@1.3.0", "@mention", "x @ y.z", "100%@home"] {
        assert_eq!(shape(text), text);
    }
}

#[test]
fn api_keys() {
    let hex = |n: usize| "a1".repeat(n)[..n].to_owned();
    for key in [
        format!("sk-{}", hex(20)),
        format!("sk-proj-{}", hex(48)),
        format!("sk-{}", "abcdefghij".repeat(2)),
        "AKIAIOSFODNN7EXAMPLE".to_owned(),
        format!("ghp_{}", hex(36)),
        format!("gho_{}", hex(36)),
        format!("github_pat_{}", hex(30)),
        "xoxb-123456789012-abcdef".to_owned(),
        format!("AIza{}", hex(35)),
    ] {
        assert_eq!(shape(&format!("key: \"{key}\"")), "key: \"<API_KEY>\"", "{key}");
    }
    for text in [
        "sk-short",
        "sk-learn-makes-many-simple-models",
        "task-force-alpha-beta-gamma-1234",
        "AKIAIOSFODNN7EXAMPL",
        "xAKIAIOSFODNN7EXAMPLE",
        "AKIAIOSFODNN7EXAMPLEX",
        "ghp_short",
        "AIzaTooShort",
    ] {
        assert_eq!(shape(text), text);
    }
}

#[test]
fn card_numbers() {
    for (text, wanted) in [
        ("card 4111 1111 1111 1111 on file", "card <CREDIT_CARD> on file"),
        ("4111-1111-1111-1111", "<CREDIT_CARD>"),
        ("4111111111111111", "<CREDIT_CARD>"),
        ("3782 822463 10005", "<CREDIT_CARD>"),
        ("信用卡4111 1111 1111 1111有效期", "信用卡<CREDIT_CARD>有效期"),
        ("４１１１\u{a0}１１１１\u{a0}１１１１\u{a0}１１１１", "<CREDIT_CARD>"),
        ("٤١١١ ١١١١ ١١١١ ١١١١", "<CREDIT_CARD>"),
        ("4111\u{200b}1111\u{200b}1111\u{200b}1111", "<CREDIT_CARD>"),
        ("4111\u{2011}1111\u{2011}1111\u{2011}1111", "<CREDIT_CARD>"),
        ("order 12345 4111 1111 1111 1111 12", "order 12345 <CREDIT_CARD> 12"),
    ] {
        assert_eq!(shape(text), wanted);
    }
    for text in [
        "card 1234 5678 9012 3456 on file",
        "4111 1111 1111 1112",
        "order 1234567890123 shipped",
        "0000 0000 0000 0000",
        "x4111111111111111",
        "0.4111111111111111",
        "1764547200004 ms",
        "2019 2020 2021 2026",
        "4111\n1111\n1111\n1111",
    ] {
        assert_eq!(shape(text), text);
    }
}

#[test]
fn telephone_numbers() {
    for (text, wanted) in [
        ("call +86 138 0013 8000 now", "call <PHONE> now"),
        ("+14155552671", "<PHONE>"),
        ("+44 (0)20 7946 0958", "<PHONE>"),
        ("+1 (212) 555-0123", "<PHONE>"),
        ("dial (212) 555-0123", "dial <PHONE>"),
        ("212-555-0123 or 212.555.0123", "<PHONE> or <PHONE>"),
        ("212.555.0123", "<PHONE>"),
        ("手机号13800138000", "手机号<PHONE>"),
        ("138 0013 8000", "<PHONE>"),
        ("138-0013-8000", "<PHONE>"),
        ("8613800138000", "<PHONE>"),
        ("020 7946 0958", "<PHONE>"),
        ("(010) 1234-5678", "<PHONE>"),
        ("06 12 34 56 78", "<PHONE>"),
        ("0044 20 7946 0958", "<PHONE>"),
        ("Phone: 4155552671", "Phone: <PHONE>"),
        ("my mobile number is 0171234567", "my mobile number is <PHONE>"),
        ("电话：12345678", "电话：<PHONE>"),
        ("Call +1 415 555 2671\n20260918", "Call <PHONE>\n20260918"),
        ("+８６\u{3000}１３８\u{3000}００１３\u{3000}８０００", "<PHONE>"),
    ] {
        assert_eq!(shape(text), wanted, "{text}");
    }
    for text in [
        "2026-12-01",
        "01.12.2026",
        "01-12-2026 10 30",
        "20261201",
        "at 2026-12-01 10.30.00",
        "0-306-40615-2",
        "0 306 40615 2",
        "978-0-306-40615-7",
        "invoice 4155552671",
        "INV-2026-000123",
        "order 12345678",
        "192.168.100.200",
        "550e8400-e29b-41d4-a716-446655440000",
        "1e+12345678",
        "+1.234.567",
        "+12345678.90",
        "+0123456789",
        "phone: 1234567",
        "phone: 2026-12-01",
        "1.2.3.4",
        "200 300 4000 500",
        "212-555-0123-77",
    ] {
        assert_eq!(shape(text), text);
    }
}

#[test]
fn identity_numbers() {
    for (text, wanted) in [
        ("id 11010519491231002X", "id <NATIONAL_ID>"),
        ("身份证11010519491231002x手机", "身份证<NATIONAL_ID>手机"),
        // Also passes the check of a card.
        ("id 110105194912310150", "id <NATIONAL_ID>"),
        ("110105 19491231 002X", "<NATIONAL_ID>"),
        ("cpf 529.982.247-25", "cpf <NATIONAL_ID>"),
        ("cpf 52998224725", "cpf <NATIONAL_ID>"),
        ("CUIT 20-12345678-6", "CUIT <NATIONAL_ID>"),
        ("RFC GODE561231GR8", "RFC <NATIONAL_ID>"),
        ("RFC GODE-561231-GR8", "RFC <NATIONAL_ID>"),
    ] {
        assert_eq!(shape(text), wanted);
    }
    for text in [
        "id 110105194912310020",
        "id 110105194913310150",
        "cpf 529.982.247-11",
        "cpf 111.111.111-11",
        "CUIT 20-1234567890-6",
        "CUIT 21-12345678-6",
        "RFC GODE561331GR8",
        "INV260115001",
        "ABC123456XYZ",
        "0.52998224725",
    ] {
        assert_eq!(shape(text), text);
    }
}

#[test]
fn a_placeholder_says_the_kind_and_belongs_to_the_value_and_the_thread() {
    let redactor = redactor();
    let one = |text: &str| redactor.redact(text).into_owned();
    assert_eq!(one("4111 1111 1111 1111"), one("4111-1111-1111-1111"));
    assert_eq!(one("Alice@Example.com"), one("alice@example.com"));
    assert_ne!(one("alice@example.com"), one("bob@example.com"));
    let thread = |name: &str| redactor.for_thread(&ThreadId::parse(name).unwrap());
    assert_eq!(thread("a").redact("x@example.com"), thread("a").redact("x@example.com"));
    assert_ne!(thread("a").redact("x@example.com"), thread("b").redact("x@example.com"));
}

#[test]
fn the_key_of_the_installation_is_used_only_when_needed() {
    let home = tempfile::tempdir().unwrap();
    let made = || std::fs::read_dir(home.path()).unwrap().count();
    let of =
        |config: &PiiRedactionConfig| Redactor::of_installation(config, home.path()).redact("a@b.com").into_owned();
    assert_eq!((of(&PiiRedactionConfig::default()), made()), ("a@b.com".to_owned(), 0));
    let shared = PiiRedactionConfig { token_secret: Some("a secret of some length".into()), ..config() };
    let elsewhere = Redactor::of_installation(&shared, std::path::Path::new("/nowhere")).redact("a@b.com").into_owned();
    assert_eq!((of(&shared), made()), (elsewhere, 0));
    assert_eq!((of(&config()), made()), (of(&config()), 1));
    let broken = home.path().join("a file");
    std::fs::write(&broken, "").unwrap();
    assert!(Redactor::of_installation(&config(), &broken).redact("a@b.com").starts_with("[EMAIL_"));
}

#[test]
fn every_kind_can_be_switched_off_by_itself() {
    let all = "a@b.com sk-a1a1a1a1a1a1a1a1a1a1 11010519491231002X 4111111111111111 +14155552671";
    let switches: [fn(&mut PiiRedactionConfig) -> &mut bool; 5] = [
        |c| &mut c.redact_email,
        |c| &mut c.redact_api_key,
        |c| &mut c.redact_national_id,
        |c| &mut c.redact_credit_card,
        |c| &mut c.redact_phone,
    ];
    for (at, value) in all.split(' ').enumerate() {
        let mut config = config();
        *switches[at](&mut config) = false;
        let redactor = Redactor::new(&config, &RedactionKey::random());
        let redacted = redactor.redact(all);
        let kept: Vec<&str> = all.split(' ').filter(|value| redacted.contains(value)).collect();
        assert_eq!(kept, [value]);
    }
    let off = Redactor::new(&PiiRedactionConfig::default(), &RedactionKey::random());
    assert!(!off.is_on() && off.redact(all) == all);
    assert!(!Redactor::off().is_on());
}

#[test]
fn the_section_checks_itself() {
    let load = |key: &str, value: &str| {
        Loader::new(Registry::new().with::<PiiRedactionConfig>())
            .env([("HOME".to_owned(), "/nowhere".to_owned())])
            .cwd("/nowhere")
            .set(key, value)
            .load()
    };
    assert!(load("pii_redaction.token_secret", "short").unwrap_err().to_string().contains("fewer than 16 bytes"));
    assert!(load("pii_redaction.redact_mail", "true").unwrap_err().to_string().contains("redact_email"));
    let config = load("pii_redaction.token_secret", "a secret of some length").unwrap();
    assert!(!format!("{:?} {}", config, config.effective()).contains("some length"));
    let section = config.section::<PiiRedactionConfig>();
    let one = Redactor::new(&section, &RedactionKey::random());
    assert!(!one.is_on());
}

fn texts(content: &Content) -> Vec<String> {
    content.to_blocks().iter().filter_map(|block| block.text().map(str::to_owned)).collect()
}

#[test]
fn a_value_split_over_blocks_is_found() {
    let redactor = redactor();
    let split = |parts: &[&str]| {
        let blocks = parts.iter().map(|part| ContentBlock::Text((*part).to_owned())).collect();
        redactor.redact_content(&Content::Blocks(blocks)).map(|content| texts(&content))
    };
    let card = redactor.redact("4111111111111111").into_owned();
    let mail = redactor.redact("alice@example.com").into_owned();
    assert_eq!(split(&["pay 4111 1111 ", "1111 1111 now"]).unwrap(), [format!("pay {card}"), " now".to_owned()]);
    assert_eq!(split(&["4111", "1111", "1111", "1111!"]).unwrap(), [card.as_str(), "", "", "!"]);
    assert_eq!(split(&["to alice@exa", "mple.com, b@c.de"]).unwrap()[0], format!("to {mail}"));
    // Whole values are not joined with what follows.
    assert_eq!(split(&["alice@example.com", "next"]).unwrap(), [mail.as_str(), "next"]);
    assert_eq!(split(&["4111 1111", "invoice"]), None);
    let apart = Content::Blocks(vec![
        ContentBlock::Text("41111111".into()),
        ContentBlock::ImageUrl("u".into()),
        ContentBlock::Text("11111111".into()),
    ]);
    assert_eq!(redactor.redact_content(&apart), None);
}

fn chain(redactor: Redactor) -> Vec<Arc<dyn Middleware>> {
    vec![
        Arc::new(crate::middleware::InputSanitizationMiddleware),
        Arc::new(PiiRedactionMiddleware::new(redactor, RemoteTools::new(["jira".to_owned()]))),
    ]
}

async fn asked(input: Message) -> Ran {
    run(chain(redactor()), vec![], vec![], input).await
}

/// In the thread that the tests run in.
fn expected(text: &str) -> String {
    redactor().for_thread(&ThreadId::parse("thread").unwrap()).redact(text).into_owned()
}

#[tokio::test]
async fn the_model_sees_placeholders_and_the_state_keeps_the_words() {
    let ran = asked(Message::human("I am alice@example.com").with_kwarg("custom", "v")).await;
    let sent = &ran.requests[0].messages[0];
    assert!(sent.text().contains(&format!("I am {}", expected("alice@example.com"))), "{}", sent.text());
    assert_eq!(sent.additional_kwargs["custom"], json!("v"));
    assert_eq!(ran.state.messages[0].text(), "I am alice@example.com");
}

#[tokio::test]
async fn a_hidden_answer_is_redacted_and_what_others_say_is_not() {
    let answer = Message::human("call +14155552671").hidden().with_kwarg(kwargs::HUMAN_INPUT_RESPONSE, json!({}));
    assert!(!asked(answer).await.requests[0].messages[0].text().contains("415"));
    let hidden = asked(Message::human("call +14155552671").hidden()).await;
    assert_eq!(hidden.requests[0].messages[0].text(), "call +14155552671");
}

#[tokio::test]
async fn a_value_torn_by_blocks_is_found_after_they_were_joined() {
    let blocks = ["mine is 4111 1111", " 1111 1111 or alice@exa", "mple.com"];
    let input = Message::human(Content::Blocks(blocks.map(|text| ContentBlock::Text(text.into())).into()));
    let ran = asked(input).await;
    let sent = ran.requests[0].messages[0].text().into_owned();
    let (card, mail) = (expected("4111111111111111"), expected("alice@example.com"));
    assert!(sent.contains(&format!("mine is {card} or {mail}")), "{sent}");
}

#[tokio::test]
async fn paths_of_uploads_stay_and_what_is_shown_of_them_does_not() {
    let list = "<current_uploads>\n- a@b.com.txt (1 KB)\n  Path: /mnt/user-data/uploads/a@b.com.txt\n  first: c@d.com\n</current_uploads>";
    let input =
        Message::human(format!("{list}\n\nask e@f.com")).with_kwarg(kwargs::ORIGINAL_USER_CONTENT, "ask e@f.com");
    let sent = asked(input).await.requests[0].messages[0].text().into_owned();
    assert!(sent.contains("Path: /mnt/user-data/uploads/a@b.com.txt\n"), "{sent}");
    assert!(!sent.contains("c@d.com") && !sent.contains("e@f.com") && !sent.contains("- a@b.com"), "{sent}");
}

#[tokio::test]
async fn results_of_remote_tools_are_stored_redacted() {
    for tool in ["web_fetch", "jira"] {
        let mut output = ToolOutput::text("contact alice@example.com");
        output.artifact = Some(json!({"rows": 3}));
        output.update.messages.push(Arc::new(Message::tool("bob@example.com", "other", tool)));
        let ran = run(
            chain(redactor()),
            vec![Canned::new(tool, output)],
            vec![calling(tool, json!({}))],
            Message::human("q"),
        )
        .await;
        let results = ran.results();
        assert_eq!(results[0].text(), format!("contact {}", expected("alice@example.com")));
        assert_eq!(results[1].text(), expected("bob@example.com"));
        assert_eq!(
            results[0].additional_kwargs[TOOL_TRANSFORMS],
            json!([{"kind": "pii_redaction", "by": "PiiRedactionMiddleware", "version": "1"}])
        );
        assert_eq!(results[0].as_tool().unwrap().artifact, Some(json!({"rows": 3})));
    }
    let local = Canned::text("bash", "alice@example.com");
    let ran = run(chain(redactor()), vec![local], vec![calling("bash", json!({}))], Message::human("q")).await;
    assert_eq!(ran.results()[0].text(), "alice@example.com");
}

#[tokio::test]
async fn a_broken_detector_lets_the_text_through() {
    let mut broken = redactor();
    broken.broken = true;
    let tool = Canned::text("web_fetch", "bob@example.com");
    let replies = vec![calling("web_fetch", json!({}))];
    let ran = run(chain(broken), vec![tool], replies, Message::human("alice@example.com")).await;
    assert!(ran.requests[0].messages[0].text().contains("alice@example.com"));
    assert_eq!(ran.results()[0].text(), "bob@example.com");
    assert_eq!(ran.state.last_ai().unwrap().text(), "done");
}

fn material() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "4111 1111 1111 1111",
            "4111111111111111",
            "+1 415 555 2671",
            "13800138000",
            "alice@example.com",
            "11010519491231002X",
            "529.982.247-25",
            "20-12345678-6",
            "GODE561231GR8",
            "AKIAIOSFODNN7EXAMPLE",
            "212-555-0123",
            "phone: ",
            "[PHONE_",
            "[EMAIL_123456789012]",
            "2026-12-01",
            "sk-",
            "@",
            "+",
            "(",
            ")",
            "-",
            ".",
            " ",
            "\n",
            "0",
            "00",
            "王",
            "\u{200b}",
            "\u{3000}",
            "４",
            "_",
            "a",
        ])
        .prop_map(str::to_owned),
        "[0-9]{1,9}",
        "\\PC{0,4}",
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_second_pass_changes_nothing(text in material()) {
        let redactor = redactor();
        let once = redactor.redact(&text).into_owned();
        prop_assert_eq!(redactor.redact(&once), once.as_str());
    }

    #[test]
    fn blocks_are_idempotent_too(texts in prop::collection::vec(material(), 0..4)) {
        let redactor = redactor();
        let content = Content::Blocks(texts.into_iter().map(ContentBlock::Text).collect());
        let once = redactor.redact_content(&content).unwrap_or_else(|| content.clone());
        prop_assert_eq!(redactor.redact_content(&once), None);
    }

    #[test]
    fn a_date_is_never_taken_for_something_else(year in 1900u32..2101, month in 1u32..13, day in 1u32..29, sep in "[-./ ]?") {
        for date in [
            format!("{year}{sep}{month:02}{sep}{day:02}"),
            format!("{day:02}{sep}{month:02}{sep}{year}"),
            format!("due {year}{sep}{month}{sep}{day}, paid"),
            format!("{year}-{month:02}-{day:02}T10:30:00.123456Z"),
            format!("{year}-{month:02}-{day:02} 10:30:00 +0200"),
        ] {
            let shaped = shape(&date);
            prop_assert_eq!(shaped, date);
        }
    }

    /// ISBNs carry check digits of their own, and they begin with 978 or 979.
    #[test]
    fn a_book_number_is_never_a_card(digits in "[0-9]{10}", sep in "[- ]?") {
        let isbn = format!("97{}{sep}{}{sep}{}{sep}{}", 8, &digits[..1], &digits[1..6], &digits[6..]);
        prop_assert_eq!(shape(&isbn), isbn);
    }

    #[test]
    fn an_invoice_number_that_fails_the_check_stays(number in "[3-6][0-9]{15}") {
        let valid = super::validate::luhn(&super::validate::digits(&number));
        let invoice = format!("invoice {number} of today");
        prop_assert_eq!(shape(&invoice) != invoice, valid);
    }
}
