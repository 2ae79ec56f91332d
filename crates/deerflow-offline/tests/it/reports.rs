//! Different files give different, sensible reports.

use crate::driver::World;
use pretty_assertions::assert_eq;

/// The text of the sample PDF, as `read_file` gives it.
const SAMPLE: &str = include_str!("../fixtures/sales-notes.md");
const PLAIN_NOTES: &str = include_str!("../fixtures/field-notes.md");
const LAB: &str = include_str!("../fixtures/lab.txt");
const MEETING: &str = include_str!("../fixtures/周会.txt");
const LABEL: &str = "> Written by DeerFlow's built-in offline model: extracted by rules from the attached files, not by a language model.";

/// The part of a report under a heading of the second level.
fn section<'a>(report: &'a str, heading: &str) -> &'a str {
    let (_, rest) = report.split_once(&format!("\n## {heading}")).unwrap_or_else(|| panic!("no {heading} in {report}"));
    rest.split("\n## ").next().unwrap_or(rest)
}

#[test]
fn the_sample_gives_a_sales_review_with_the_causes_in_order() {
    let mut world = World::new();
    let answer =
        world.ask("Find the main reasons why sales fell and write a review", &[("sales-notes.pdf", Some(SAMPLE))]);
    assert_eq!(world.presented, ["/mnt/user-data/outputs/sales-review.md"]);
    assert_eq!(world.calls, ["read_file", "write_file", "present_files"]);
    let report = world.report();
    assert!(report.starts_with(&format!("{LABEL}\n\n# Sales review\n")));
    let reasons = section(report, "Main reasons");
    let titles: Vec<&str> =
        reasons.lines().filter(|line| line.starts_with("### ")).map(|line| line.split(" (").next().unwrap()).collect();
    assert_eq!(
        titles,
        [
            "### 1. Lost key account Nordhem",
            "### 2. Delayed launch of AirPure 3",
            "### 3. Price increase of 8% on 1 July",
            "### 4. Stock-out, 23 days in August",
            "### 5. Ventara discount, EUR 129",
            "### 6. Promotion of 清风 in China",
            "### Also given as a cause",
        ]
    );
    for quote in [
        "“Marta puts one cause above all others: the loss of Nordhem, the furniture chain.” (sales-notes.pdf, p. 1)",
        "because of the delay (延迟).” (sales-notes.pdf, p. 2)",
        "Units lost: 1,900; Share: 16%; Who says so: Rivera; How sure: model, +/- 25% (sales-notes.pdf, p. 3)",
        "for 23 days, from 4 to 26 August, and the online shop showed 'available in 3 weeks' for most of that time.” (sales-notes.pdf, p. 2)",
    ] {
        assert!(reasons.contains(quote), "{quote} is not in {reasons}");
    }
    assert!(section(report, "Figures").contains("| North | 17,200 | 18,400 | 12,700 | -31.0% | 2,349,500 |"));
    assert!(section(report, "Ruled out by the sources").contains("quality (returns flat at 2.1 percent)"));
    assert!(!section(report, "Ruled out by the sources").contains("唯一"));
    assert!(section(report, "What the sources propose").contains("(Karim, Weber). Cost about EUR 5 per unit."));
    assert!(section(report, "Open questions").contains("(sales-notes.pdf, p. 4)"));
    assert!(!report.contains("Kestrel Home Appliances - internal"), "the page footer is quoted");
    assert!(answer.starts_with("**DeerFlow's built-in offline model**"));
    assert!(answer.contains("(sales-notes.pdf, p. 3)") && answer.ends_with("Report: `sales-review.md`"));
    assert!((3..=6).contains(&answer.lines().filter(|line| line.starts_with("- ")).count()));
}

#[test]
fn causes_without_a_table_are_gathered_by_what_they_share() {
    let mut world = World::new();
    world.ask("Why did we lose customers? Write a short report.", &[("field-notes.pdf", Some(PLAIN_NOTES))]);
    let report = world.report();
    let reasons = section(report, "Main reasons");
    let titles: Vec<String> = reasons.lines().filter(|line| line.starts_with("### ")).map(str::to_lowercase).collect();
    assert!(titles.iter().any(|title| title.contains("price increase")), "{titles:?}");
    assert!(titles.iter().any(|title| title.contains("deliver") || title.contains("late")), "{titles:?}");
    assert!(titles.iter().any(|title| title.contains("support")), "{titles:?}");
    assert!(reasons.contains("(field-notes.pdf, p. 1)") && reasons.contains("(field-notes.pdf, p. 2)"));
    assert!(!reasons.contains("What made you leave?"), "a question of the interviewer is quoted as a reason");
    assert!(reasons.contains("“Peter Olsen (Harbor Foods): We left because"), "a quote keeps its speaker");
    assert!(!report.contains("Sales review"));
}

#[test]
fn a_lab_report_is_summed_up_with_its_figures_and_lines() {
    let mut world = World::new();
    let answer = world.ask("Summarise this", &[("lab.txt", Some(LAB))]);
    assert_eq!(world.presented, ["/mnt/user-data/outputs/lab-report.md"]);
    let report = world.report();
    let summary = section(report, "Summary");
    assert!(summary.contains("yield dropped") && summary.contains("(lab.txt, line "));
    assert!(report.contains("| 60 | 81 | 0.4 |"));
    assert!(section(report, "Open questions").contains("not yet known"));
    assert!(!report.contains("Main reasons"));
    assert!(answer.contains("(lab.txt, line "));
}

#[test]
fn a_chinese_request_gives_a_chinese_report() {
    let mut world = World::new();
    let answer = world.ask("请总结销售下降的原因，并写一份报告", &[("周会.txt", Some(MEETING))]);
    assert_eq!(world.presented, ["/mnt/user-data/outputs/周会-报告.md"]);
    let report = world.report();
    assert!(report.starts_with("> 由 DeerFlow 内置离线模型撰写"));
    let reasons = section(report, "主要原因");
    assert!(report.contains("“王丽：三季度销售下降了21%"), "a quote keeps its speaker");
    assert!(reasons.contains("涨价") && reasons.contains("延迟") && reasons.contains("(周会.txt, 第 "));
    assert!(answer.starts_with("**DeerFlow 内置离线模型**") && answer.contains("周会-报告.md"));
}

#[test]
fn two_files_are_compared_source_by_source_and_cited_by_name() {
    let mut world = World::new();
    world.ask("Compare the two documents", &[("lab.txt", Some(LAB)), ("field-notes.pdf", Some(PLAIN_NOTES))]);
    let by_source = section(world.report(), "What each source says");
    let (lab, notes) = by_source.split_once("### field-notes.pdf").expect("two sources");
    assert!(lab.contains("### lab.txt") && lab.contains("(lab.txt, line "));
    assert!(notes.contains("(field-notes.pdf, p. ") && !notes.contains("(lab.txt"));
}

#[test]
fn the_file_that_the_person_names_is_written() {
    let mut world = World::new();
    world.ask("Summarise the notes and write it to my-notes.md", &[("lab.txt", Some(LAB))]);
    assert_eq!(world.presented, ["/mnt/user-data/outputs/my-notes.md"]);
}

#[test]
fn a_follow_up_is_answered_from_what_was_read_without_a_new_report() {
    let mut world = World::new();
    world.ask("Find the main reasons why sales fell and write a review", &[("sales-notes.pdf", Some(SAMPLE))]);
    let calls = world.calls.len();
    let answer = world.ask("And what about Brno?", &[]);
    assert_eq!(world.calls.len(), calls, "it was read already");
    assert!(
        answer.contains(
            "“The filter supplier in Brno closed for five weeks after a fire on 19 July.” (sales-notes.pdf, p. 2)"
        ),
        "{answer}"
    );
    let answer = world.ask("And what about Reykjavik?", &[]);
    assert!(answer.contains("I found nothing about “Reykjavik”"), "{answer}");
}

#[test]
fn a_file_of_tables_only_is_reported_by_its_rows_and_sheet() {
    let rows = "<!-- sheet Costs -->\n| Site | Rent | Power |\n| --- | --- | --- |\n| Oslo | 1200 | 310 |\n| Bergen | 900 | 280 |\n";
    let mut world = World::new();
    let answer = world.ask("Summarise this", &[("site costs.xlsx", Some(rows))]);
    assert_eq!(world.presented, ["/mnt/user-data/outputs/site-costs-report.md"]);
    assert!(
        section(world.report(), "Figures").contains("Table (site costs.xlsx, sheet Costs)\n\n| Site | Rent | Power |")
    );
    assert!(answer.contains("Table (site costs.xlsx, sheet Costs)\n\n| Site | Rent | Power |"), "{answer}");
    let answer = world.ask("What about Oslo?", &[]);
    assert!(answer.contains("- Site: Oslo; Rent: 1200; Power: 310 (site costs.xlsx, sheet Costs)"), "{answer}");
}

#[test]
fn an_extraction_lists_points_and_a_log_that_opens_with_error_is_read() {
    let log = "Error: disk 7 failed at 03:10.\nDisk 7 was replaced at 09:40 by the night shift.\nThe rebuild took 5 hours.\nError: disk 9 is slow.\nNothing else happened.\n";
    let mut world = World::new();
    world.ask("List everything about disk failures", &[("raid.log", Some(log))]);
    let points = section(world.report(), "Extracted points");
    assert!(points.contains("(raid.log, line 1)") && points.contains("Disk 7 was replaced at 09:40"), "{points}");
}

#[test]
fn a_file_of_rows_is_a_table_and_code_in_a_text_is_not_quoted() {
    let mut world = World::new();
    world.ask("Summarise this", &[("stock.csv", Some("site,units,cost\nOslo,4,\"1,200\"\nBergen,9,900\n"))]);
    assert!(section(world.report(), "Figures").contains("| Oslo | 4 | 1,200 |\n| Bergen | 9 | 900 |"));
    let mut world = World::new();
    let text = "# Setup\n\nInstall the tool first, it takes 5 minutes.\n\n```\nmake all # do not quote this line, it is code\n```\n";
    world.ask("Summarise this", &[("README.md", Some(text))]);
    assert!(world.report().contains("“Install the tool first, it takes 5 minutes.” (README.md, line 3)"));
    assert!(!world.report().contains("do not quote"));
}

#[test]
fn what_stands_under_a_heading_that_is_asked_for_is_listed() {
    let text = "# Plan\n\nWe move in March.\n\n## Risks\n\n- The copy may not finish in the night.\n- Nobody knows the old driver well.\n\nAnna keeps the register.\n";
    let mut world = World::new();
    world.ask("List the risks", &[("plan.md", Some(text))]);
    let points = section(world.report(), "Extracted points");
    assert!(points.contains("The copy may not finish") && points.contains("the old driver"), "{points}");
    assert!(!points.contains("We move in March") && !points.contains("Anna keeps"), "{points}");
}
