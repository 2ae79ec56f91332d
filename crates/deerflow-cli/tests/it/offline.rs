//! The main job with no key and no service.

use crate::support::{World, repository};
use pretty_assertions::assert_eq;

const LABEL: &str = "built-in offline model";

#[tokio::test]
async fn the_sample_gives_a_review_with_its_sources() {
    let world = World::offline();
    let sample = repository().join("samples/sales-notes.pdf");
    let out = world.path("out");
    let prompt = "Find the main reasons why sales fell and write a review";
    let ran = world
        .run(&["run", prompt, "--file", sample.to_str().unwrap(), "--output", out.to_str().unwrap()])
        .await
        .expect_code(0);
    let review = std::fs::read_to_string(out.join("sales-review.md")).unwrap();
    assert!(review.lines().next().unwrap().contains(LABEL), "{review}");
    assert!(review.contains("sales-notes.pdf, p. "), "sources are quoted by page: {review}");
    assert!(ran.stdout.contains(LABEL), "the answer is labelled: {}", ran.stdout);
    assert!(ran.stdout.contains("file  ") && ran.stdout.contains("sales-review.md"), "{}", ran.stdout);
    assert!(ran.stdout.contains("tokens in"), "{}", ran.stdout);
    for step in [
        "→ read_file uploads/sales-notes.pdf",
        "✓ write_file outputs/sales-review.md",
        "✓ present_files outputs/sales-review.md",
    ] {
        assert!(ran.stderr.contains(step), "{step} in {}", ran.stderr);
    }
}

#[tokio::test]
async fn another_file_gives_another_report() {
    let world = World::offline();
    let notes = world.path("lab.md");
    std::fs::write(
        &notes,
        "# Reactor test 7\n\nThe reactor overheated because the coolant pump failed at 14:32. Pressure rose to 8.4 bar.\n\n\
         The valve stuck due to corrosion. Dr. Ada Lim replaced the valve on Monday.\n\nLunch was served at noon.\n",
    )
    .unwrap();
    let out = world.path("out");
    world
        .run(&[
            "run",
            "Why did the reactor overheat? Write a report",
            "-f",
            notes.to_str().unwrap(),
            "-o",
            out.to_str().unwrap(),
        ])
        .await
        .expect_code(0);
    let files: Vec<_> = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let report = std::fs::read_to_string(&files[0]).unwrap();
    assert!(report.contains("coolant pump failed"), "{report}");
    assert!(!report.to_lowercase().contains("sales"), "{report}");
    assert!(report.contains("lab.md, line "), "{report}");
}

#[tokio::test]
async fn an_empty_file_and_no_file_get_an_honest_answer() {
    let world = World::offline();
    let empty = world.path("empty.txt");
    std::fs::write(&empty, "").unwrap();
    let ran = world.run(&["run", "Summarise this", "-f", empty.to_str().unwrap(), "--quiet"]).await.expect_code(0);
    assert!(ran.stdout.contains("empty.txt"), "{}", ran.stdout);
    let ran = world.run(&["run", "Write a poem about rain", "--quiet"]).await.expect_code(0);
    assert!(ran.stdout.contains(LABEL) && ran.stdout.contains("OPENAI_API_KEY"), "{}", ran.stdout);
}

#[tokio::test]
async fn a_follow_up_goes_on_with_the_thread() {
    let world = World::offline();
    let notes = world.path("notes.txt");
    std::fs::write(&notes, "Berlin lost 12 % because the shop closed.\nParis grew 3 % after the fair.\n").unwrap();
    world.run(&["run", "Summarise the notes", "-f", notes.to_str().unwrap(), "--thread", "t1"]).await.expect_code(0);
    let ran = world.run(&["run", "And what about Paris?", "--thread", "t1", "--quiet"]).await.expect_code(0);
    assert!(ran.stdout.contains("Paris grew 3 %"), "{}", ran.stdout);
}
