//! Bounds, late and wrong readers, runs of elsewhere.

use super::script::{Runner, Step};
use crate::bridge::{Bridge, BridgeOptions, EventId, Item, Told};
use deerflow_core::{AgentEvent, MessageDelta, RunId, ThreadId};
use futures::FutureExt as _;
use pretty_assertions::assert_eq;
use std::time::Duration;

async fn drain(run: &Runner, after: Option<EventId>) -> Vec<Item> {
    let mut reader = run.bridge.subscribe(run.journal.clone(), run.run_id.clone(), run.thread_id.clone(), after);
    let mut items = Vec::new();
    while let Some(item) = reader.next().await {
        items.push(item);
    }
    items
}

fn over(steps: Vec<Step>) -> Runner {
    let mut run = Runner::new(Bridge::default(), steps, 3);
    while run.act() {}
    run
}

fn ends(items: &[Item]) -> bool {
    match items.last() {
        Some(Item::End) => true,
        Some(Item::Entry { entry, .. }) => matches!(entry.told, Told::End),
        _ => false,
    }
}

/// BR-042: a reader that pauses for the whole of a burst misses nothing of it.
#[tokio::test]
async fn a_burst_of_2000_tokens_is_never_cut() {
    let run = over(vec![Step::Input, Step::Model { lost: None, deltas: 2000 }]);
    let items = drain(&run, None).await;
    let deltas = items.iter().filter(|item| match item {
        Item::Entry { entry, .. } => matches!(entry.told, Told::Agent(AgentEvent::ModelDelta { .. })),
        _ => false,
    });
    assert_eq!(deltas.count(), 2000);
    assert!(ends(&items));
}

#[tokio::test]
async fn a_ring_is_bounded_in_bytes_and_the_end_is_always_kept() {
    let options = BridgeOptions { max_bytes: 100_000, ..BridgeOptions::default() };
    let bridge = Bridge::new(options);
    let stream = bridge.open(&RunId::random(), &ThreadId::parse("t").unwrap());
    for _ in 0..1000 {
        let delta = MessageDelta::text("x".repeat(5000));
        stream.publish(AgentEvent::ModelDelta { message_id: "m".into(), delta });
        assert!(stream.bytes() <= 100_000);
    }
    let delta = MessageDelta::text("x".repeat(500_000));
    stream.publish(AgentEvent::ModelDelta { message_id: "m".into(), delta });
    stream.close();
    assert!(stream.bytes() <= 100_000);
}

/// BR-033, BR-035
#[tokio::test]
async fn ids_that_are_not_of_this_run_mean_from_the_start() {
    let mut run = over(vec![Step::Input, Step::Model { lost: None, deltas: 3 }, Step::Tools(2)]);
    let foreign = [EventId { seq: 2, n: 16 }, EventId { seq: 3, n: 0 }, EventId { seq: 999, n: 0 }];
    for here in [true, false] {
        let whole = drain(&run, None).await.len();
        for id in foreign {
            let items = drain(&run, Some(id)).await;
            assert_eq!((items.len(), ends(&items)), (whole, true), "{id}, here: {here}");
        }
        // The same for a process that has forgotten the run.
        run.bridge = Bridge::default();
    }
}

#[tokio::test]
async fn a_run_that_is_over_is_forgotten_in_time_and_still_ends() {
    assert!(
        {
            let run = over(vec![Step::Input]);
            run.bridge.get(&run.run_id).is_some()
        },
        "kept for a while"
    );
    let bridge = Bridge::new(BridgeOptions { keep_closed: Duration::ZERO, ..BridgeOptions::default() });
    let mut run = Runner::new(bridge, vec![Step::Input, Step::Tools(1)], 3);
    while run.act() {}
    assert!(run.bridge.get(&run.run_id).is_none());
    let items = drain(&run, Some(EventId { seq: 4, n: 0 })).await;
    let stored: Vec<u64> =
        items.iter().filter_map(|item| if let Item::Stored(m) = item { Some(m.seq) } else { None }).collect();
    assert_eq!(stored, [6], "what came after the row it had seen");
    assert!(ends(&items));
}

#[tokio::test]
async fn many_runs_that_are_over_stay_within_their_bytes() {
    let bridge = Bridge::new(BridgeOptions { max_closed_bytes: 50_000, ..BridgeOptions::default() });
    let mut ids = Vec::new();
    for _ in 0..50 {
        let run_id = RunId::random();
        let stream = bridge.open(&run_id, &ThreadId::parse("t").unwrap());
        stream.publish(AgentEvent::ModelDelta { message_id: "m".into(), delta: MessageDelta::text("x".repeat(5000)) });
        stream.close();
        ids.push(run_id);
    }
    let kept: Vec<bool> = ids.iter().map(|id| bridge.get(id).is_some()).collect();
    assert!(kept.is_sorted(), "the oldest go first");
    let count = kept.iter().filter(|kept| **kept).count();
    assert!((5..10).contains(&count), "{count}");
}

/// A run of another process: its rows as they come, and the end when its row says so.
#[tokio::test]
async fn a_run_of_another_process_is_followed_by_its_rows() {
    let mut run = Runner::new(Bridge::default(), vec![Step::Input, Step::Tools(2), Step::Tools(1)], 0);
    let here = Bridge::new(BridgeOptions { poll: Duration::from_millis(1), ..BridgeOptions::default() });
    let mut reader = here.subscribe(run.journal.clone(), run.run_id.clone(), run.thread_id.clone(), None);
    let mut told = Vec::new();
    loop {
        match reader.next().now_or_never() {
            Some(Some(item)) => told.push(match item {
                Item::Begin => "begin".to_owned(),
                Item::Stored(message) => message.message.id().to_owned(),
                Item::State(state) => format!("state of {}", state.state.messages.len()),
                Item::End => "end".to_owned(),
                other => panic!("{other:?}"),
            }),
            Some(None) => break,
            // It waits: the run goes on.
            None => (0..5).for_each(|_| _ = run.act()),
        }
    }
    assert_eq!(told.first().map(String::as_str), Some("begin"));
    assert_eq!(told.last().map(String::as_str), Some("end"));
    let messages: Vec<_> = told.iter().filter(|t| t.contains('-')).map(String::as_str).collect();
    assert_eq!(messages, ["in-0-0", "tool0-1-0", "tool1-1-0", "tool0-2-0"]);
    assert_eq!(told[told.len() - 2], "state of 4");
}

/// Nobody reads, one reads and stops: the run publishes all the same.
#[tokio::test]
async fn a_reader_that_stops_costs_the_run_nothing() {
    let options = BridgeOptions { max_events: 100, ..BridgeOptions::default() };
    let mut run = Runner::new(Bridge::new(options), vec![Step::Input, Step::Model { lost: None, deltas: 5000 }], 0);
    let mut slow = run.bridge.subscribe(run.journal.clone(), run.run_id.clone(), run.thread_id.clone(), None);
    assert!(slow.next().await.is_some());
    while run.act() {}
    assert!(slow.next().now_or_never().flatten().is_some());
    let mut last = None;
    while let Some(item) = slow.next().await {
        last = Some(item);
    }
    assert!(ends(last.as_slice()));
}
