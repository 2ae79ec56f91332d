//! What a reader wants to know stands first, under a title that says something.

use crate::driver::{World, upload};
use pretty_assertions::assert_eq;

const INCIDENT: &str = "# Payment incident, 12 May

On 12 May checkout failed for all customers. The outage lasted 47 minutes. About 3,400 payments were lost.

## What happened

The first alert came late because the alert rule was wrong. The on-call engineer, Priya Nair, restarted the service \
twice, but the service was still broken. The root cause was an expired TLS certificate on the payment gateway proxy. \
Support was told 20 minutes late, so customers complained for hours.

Hanna Brandt, ext. 4417.
";
const MINUTES: &str = "# Weekly minutes

The team met on Tuesday.

Risks:
- The vendor may not deliver in time.
- Only one person knows the billing code.

## Action items

- [ ] Ada: fix the login bug by Friday
- [x] Ben: call the vendor

## Open questions

- Who pays for the travel?
- Whether there is room for a second sensor.

Notes in my own words, Hanna Brandt, ext. 4417.
";

/// Titles of the reasons in the report on this text, and the report.
fn titles(text: &str) -> (Vec<String>, String) {
    let mut world = World::new();
    world.ask("Why did it fail? Write a report", &[("incident.pdf", Some(text))]);
    let report = world.report().to_owned();
    let lines = report.lines().filter_map(|line| line.strip_prefix("### ")?.split_once(". "));
    (lines.map(|(_, title)| title.split(" (mentions").next().unwrap_or(title).to_owned()).collect(), report)
}

fn answer(request: &str, text: &str) -> String {
    World::new().ask(request, &[("incident.pdf", Some(text))])
}

#[test]
fn the_cause_that_a_source_calls_one_comes_first_and_gives_the_title() {
    let (found, report) = titles(INCIDENT);
    assert_eq!(found, ["Expired TLS certificate on the payment gateway proxy", "Alert rule was wrong"], "{report}");
    for (sentence, title) in [
        ("An unplugged cable was the main reason for the outage.", "Unplugged cable"),
        ("The failure was caused by a full log disk, which nobody watched.", "Full log disk"),
        ("The reason for the outage was that the backup valve had rusted.", "Backup valve had rusted"),
        ("It all stopped because of a loose belt in the mill.", "Loose belt in the mill"),
        ("停机的根本原因是冷却泵损坏。", "冷却泵损坏"),
    ] {
        let text = format!("Sales fell because staff were ill. Many orders were late again and again. {sentence}\n");
        let (found, report) = titles(&text);
        assert_eq!(found[0], title, "{report}");
    }
}

#[test]
fn a_main_reason_goes_before_another_that_is_also_named() {
    let text = "Because of the new phones, 12% of all calls were lost. The main reason was that three agents left.\n";
    assert_eq!(titles(text).0, ["Three agents left", "New phones"]);
}

#[test]
fn a_file_of_tables_beside_one_of_sentences_is_not_passed_over() {
    let mut world = World::new();
    let files = [("a.txt", Some("Sales were 4.1 million EUR.")), ("b.csv", Some("Item,Price\nSoap,500\n"))];
    world.ask("Compare the two", &files);
    let report = world.report();
    assert!(report.contains("### b.csv\n\n- No sentence here fits") && report.contains("| Soap | 500 |"), "{report}");
}

#[test]
fn no_title_is_a_unit_an_adjective_or_one_vague_word() {
    let text = "The pump failed after 20 minutes. The alarm was wrong for ten minutes. The alarm service was broken. \
                The service was late. The new valve was late too and the old one broken.\n";
    let (found, report) = titles(text);
    assert!(!found.is_empty(), "{report}");
    for title in found {
        assert!((2..=8).contains(&title.split_whitespace().count()), "{title} in {report}");
    }
}

#[test]
fn a_text_version_is_no_second_source() {
    let mut world = World::new();
    world.files.insert(upload("a.pdf"), INCIDENT.to_owned());
    world.files.insert(upload("a.md"), INCIDENT.to_owned());
    let block = format!(
        "<current_uploads>\n- a.pdf (1 KB)\n  Path: {}\n  Text version: {}\n</current_uploads>\n\nSummarise it in a report",
        upload("a.pdf"),
        upload("a.md")
    );
    world.messages.push(std::sync::Arc::new(deerflow_core::Message::human(block)));
    world.run();
    assert!(world.report().contains("**Sources:** a.pdf\n"), "{}", world.report());
}

#[test]
fn the_items_of_a_list_under_the_asked_heading_are_given() {
    let found = answer("What are the risks?", MINUTES);
    assert!(found.contains("deliver in time.”") && found.contains("billing code") && !found.contains("Ada"), "{found}");
    let found = answer("List the action items", MINUTES);
    assert!(found.contains("“Ada: fix") && found.contains("“Ben: call") && !found.contains("billing"), "{found}");
}

#[test]
fn an_open_question_asks_or_says_so() {
    let mut world = World::new();
    world.ask("Summarise this", &[("minutes.md", Some(MINUTES))]);
    let (_, open) = world.report().split_once("## Open questions").expect("open questions");
    assert!(open.contains("“Who pays for the travel?”") && open.contains("second sensor"), "{open}");
    assert!(!open.contains("ext. 4417") && !world.report().contains("in my own words"), "{open}");
}

#[test]
fn rows_are_never_quoted_as_sentences() {
    let mut world = World::new();
    let answer = world.ask("Summarise this", &[("prices.csv", Some("Item,Price,Cost\nSoap,500,300\nWax,700,450\n"))]);
    assert!(!world.report().contains('“') && !answer.contains('“'), "{answer}");
    assert!(answer.contains("| Soap | 500 | 300 |"), "{answer}");
}

#[test]
fn one_file_to_compare_is_said_to_be_alone_and_a_follow_up_has_all_of_them() {
    let mut world = World::new();
    let old = [("2023.txt", Some("Sales were 4.1 million EUR. The north fell by 2%."))];
    let answer = world.ask("Compare it with last year", &old);
    assert!(answer.contains("only one file to compare, 2023.txt"), "{answer}");
    world.ask("Summarise this", &[("2024.txt", Some("Sales were 4.2 million EUR. The north grew by 9%."))]);
    let answer = world.ask("Compare the two", &[]);
    assert!(answer.contains("fell by 2%.” (2023.txt") && answer.contains("grew by 9%.” (2024.txt"), "{answer}");
}

#[test]
fn a_report_is_named_after_what_the_file_is_about() {
    for (file, name) in [
        ("notes.pdf", "report.md"),
        ("my_last_report.txt", "report.md"),
        ("Mein Bericht.txt", "report.md"),
        ("report-utf16.txt", "report.md"),
        ("new file.md", "report.md"),
        ("pump_notes.txt", "pump-report.md"),
    ] {
        let mut world = World::new();
        world.ask("Why did sales fall? Write a report", &[(file, Some(INCIDENT))]);
        assert_eq!(world.presented, [format!("/mnt/user-data/outputs/{name}")], "{file}");
    }
}

#[test]
fn quotes_have_one_pair_of_marks_and_no_stray_dash() {
    let text = "“We lost the client,” said Marta in May. Then she called \"the board\".\n\n\" - The invoice was late again,\" she wrote.\n\n\
                She said: \"The dealers wait. Every week they buy 40 units elsewhere.\"\n";
    let mut world = World::new();
    let answer = world.ask("Summarise this", &[("a.txt", Some(text))]);
    for whole in ["“'We lost the client,' said Marta in May.”", "“Every week they buy 40 units elsewhere.”"] {
        assert!(answer.contains(whole), "{whole} is not in {answer}");
    }
    for stray in ["““", "””", "“\"", "\"”", "“-", "“ ", "“–"] {
        assert!(!answer.contains(stray) && !world.report().contains(stray), "{stray} in {answer}");
    }
}

#[test]
fn a_section_without_content_is_not_printed() {
    for text in
        ["| Year | 2024 |\n", "| 1 | 2 |\n| --- | --- |\n| =A1+B1 | |\n\nThe shop moved to the old town hall.\n"]
    {
        let mut world = World::new();
        let answer = world.ask("Summarise this", &[("a.md", Some(text))]);
        let report = world.files.iter().find(|(path, _)| path.contains("/outputs/")).map_or(&answer, |(_, text)| text);
        for part in report.split("\n## ").skip(1) {
            assert!(part.lines().skip(1).any(|line| !line.trim().is_empty()), "an empty section in {report}");
        }
    }
}
