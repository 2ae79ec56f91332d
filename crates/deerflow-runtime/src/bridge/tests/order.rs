//! Any cut and any pace: each durable message once, and always the end.

use super::script::{Runner, Step};
use crate::bridge::{Bridge, BridgeOptions, EventId, Subscription};
use crate::views::{Frame, RunView, StreamMode, Views};
use futures::FutureExt as _;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

/// What happens next.
#[derive(Debug, Clone)]
enum Op {
    /// The run does so many things.
    Run(usize),
    /// A reader takes up to so many frames.
    Read(usize, usize),
    /// A reader's connection is cut after so many more frames; it comes back with the last id it saw.
    Cut(usize, usize),
    /// The process dies, and with it every connection.
    Crash,
}

/// A client: what it has seen, over all its connections.
struct Client {
    subscription: Subscription<super::script::Journal>,
    views: Views,
    seen: Vec<Frame>,
    waiting: std::collections::VecDeque<Frame>,
    modes: Vec<StreamMode>,
}

impl Client {
    fn new(run: &Runner, modes: &[StreamMode]) -> Self {
        let (subscription, views) = connect(run, modes, None);
        Self { subscription, views, seen: vec![], waiting: Default::default(), modes: modes.to_vec() }
    }
    fn last_id(&self) -> Option<EventId> {
        self.seen.iter().rev().find_map(|frame| frame.id)
    }
    fn over(&self) -> bool {
        self.seen.last().is_some_and(|frame| frame.event == "end")
    }
    /// Takes frames that are there now.
    fn read(&mut self, count: usize) {
        for _ in 0..count {
            while self.waiting.is_empty() {
                let Some(Some(item)) = self.subscription.next().now_or_never() else { return };
                self.waiting.extend(self.views.frames(&item));
            }
            self.seen.extend(self.waiting.pop_front());
        }
    }
    fn reconnect(&mut self, run: &Runner) {
        if !self.over() {
            (self.subscription, self.views) = connect(run, &self.modes, self.last_id());
            self.waiting.clear();
        }
    }
}

fn connect(
    run: &Runner,
    modes: &[StreamMode],
    after: Option<EventId>,
) -> (Subscription<super::script::Journal>, Views) {
    let (run_id, thread_id) = (run.run_id.clone(), run.thread_id.clone());
    // The id travels as text.
    let after = EventId::from_header(after.map(|id| id.to_string()).as_deref());
    let subscription = run.bridge.subscribe(run.journal.clone(), run_id.clone(), thread_id.clone(), after);
    (subscription, Views::new(modes.iter().copied(), RunView::new(run_id, thread_id)))
}

fn bridge(max_events: usize) -> Bridge {
    Bridge::new(BridgeOptions { max_events, ..BridgeOptions::default() })
}

/// `messages-tuple` beside `messages` is the former alone, so that the latter is asked for elsewhere.
const MODES: [StreamMode; 9] = StreamMode::ALL;

/// Plays a run before readers; returns what each saw, the run, and whether the ring or a process was ever lost.
fn play(steps: Vec<Step>, ops: &[Op], max_events: usize, before: u64) -> (Vec<Client>, Runner) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let mut run = Runner::new(bridge(max_events), steps, before);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::new(&run, &MODES)).collect();
    for op in ops {
        match *op {
            Op::Run(count) => (0..count).for_each(|_| _ = run.act()),
            Op::Read(who, count) => clients[who].read(count),
            Op::Cut(who, count) => {
                clients[who].read(count);
                clients[who].reconnect(&run);
            }
            Op::Crash => {
                run.crash(bridge(max_events));
                clients.iter_mut().for_each(|client| client.reconnect(&run));
            }
        }
    }
    while run.act() {}
    // One that comes when all is over, and one that comes when the process has forgotten the run.
    clients.push(Client::new(&run, &MODES));
    clients.push(Client::new(&run, &[StreamMode::Messages]));
    run.bridge = bridge(max_events);
    clients.push(Client::new(&run, &MODES));
    clients.iter_mut().for_each(|client| client.read(usize::MAX));
    (clients, run)
}

fn parsed(frame: &Frame) -> Value {
    serde_json::from_str(&frame.data).unwrap()
}

/// How often each message was told to its end: whole, or by its last piece.
fn completed(seen: &[Frame]) -> BTreeMap<String, usize> {
    let mut told = BTreeMap::new();
    for frame in seen.iter().filter(|frame| frame.event == "messages") {
        let message = &parsed(frame)[0];
        if message["type"] != "AIMessageChunk" || message["chunk_position"] == "last" {
            *told.entry(message["id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    told
}

fn check(client: &Client, run: &Runner) {
    let seen = &client.seen;
    let ends = seen.iter().filter(|frame| frame.event == "end").count();
    assert_eq!((ends, client.over()), (1, true), "every reader reaches the end, once");
    let ids: Vec<_> = seen.iter().filter_map(|frame| frame.id).collect();
    assert!(ids.windows(2).all(|pair| pair[0].seq <= pair[1].seq), "rows are told in order: {ids:?}");
    let durable: BTreeMap<String, usize> = run
        .rows()
        .iter()
        .filter(|row| row.row.category == "message")
        .map(|row| (row.row.content["message"]["id"].as_str().unwrap().to_owned(), 1))
        .collect();
    assert_eq!(completed(seen), durable, "each durable message once, and nothing of another run");
    if let Some(last) = seen.iter().rev().find(|frame| frame.event == "values") {
        let shown: Vec<_> = parsed(last)["messages"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
        let real: Vec<_> = run.state.messages.iter().map(|m| Value::from(m.id())).collect();
        assert_eq!(shown, real, "the last state is the run's");
    } else {
        assert!(run.state.messages.is_empty());
    }
}

/// In the mode `messages` every durable message is told complete, once.
fn check_whole(client: &Client, run: &Runner) {
    let complete = client.seen.iter().filter(|frame| frame.event == "messages/complete");
    let told: Vec<_> = complete.map(|frame| parsed(frame)[0]["id"].clone()).collect();
    let real: Vec<_> = run.state.messages.iter().map(|m| Value::from(m.id())).collect();
    assert_eq!((told, client.over()), (real, true));
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (prop::option::weighted(0.2, 0..4usize), 0..8usize).prop_map(|(lost, deltas)| Step::Model { lost, deltas }),
        2 => (1..4usize).prop_map(Step::Tools),
    ]
}
fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..8).prop_map(|mut steps| {
        steps.insert(0, Step::Input);
        steps
    })
}
fn op(crash: u32) -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1..8usize).prop_map(Op::Run),
        4 => (0..3usize, 1..8usize).prop_map(|(who, count)| Op::Read(who, count)),
        3 => (0..3usize, 0..6usize).prop_map(|(who, count)| Op::Cut(who, count)),
        crash => Just(Op::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Rings of any size, down to one that holds almost nothing, and crashes.
    #[test]
    fn any_cut_and_any_pace_tell_each_durable_message_once(
        steps in steps(),
        ops in prop::collection::vec(op(1), 0..40),
        max_events in 1..40usize,
        before in 0..3u64,
    ) {
        let (clients, run) = play(steps, &ops, max_events, before);
        for client in clients.iter().filter(|client| client.modes.len() > 1) {
            check(client, &run);
        }
        check_whole(&clients[4], &run);
    }

    /// While the ring holds, a reader that was cut sees frame by frame what an undisturbed one sees.
    #[test]
    fn a_cut_is_invisible_while_the_ring_holds(steps in steps(), ops in prop::collection::vec(op(0), 0..40)) {
        let ops: Vec<_> = ops.into_iter().filter(|op| !matches!(op, Op::Crash)).collect();
        let (clients, run) = play(steps, &ops, 100_000, 2);
        let undisturbed = &clients[3].seen;
        for client in &clients[..3] {
            prop_assert_eq!(&client.seen, undisturbed);
        }
        check(&clients[3], &run);
    }
}
