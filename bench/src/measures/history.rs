//! One long thread: what each turn adds on disk, what it costs as the thread grows, and whether all of it can be read.

use crate::Bench;
use crate::bare::Bare;
use crate::embedded::{Embedded, Reopened};
use crate::model::{Hold, Model, THREAD};
use crate::procfs;
use crate::report::{Row, Statistic};
use crate::stats::Sample;
use anyhow::{Context, Result, ensure};
use deerflow_core::ports::StepLog as _;
use deerflow_core::{Lineage, ThreadId};
use std::time::{Duration, Instant};

const TURNS: usize = 400;
const MARKS: [usize; 3] = [10, 100, TURNS];
/// Turns whose CPU time stands for turn 20, and for the last.
const EARLY: std::ops::RangeInclusive<usize> = 11..=30;
const LATE: std::ops::RangeInclusive<usize> = 381..=TURNS;
/// MiB, write-ahead log included.
const DISK_BUDGET: f64 = 6.0;
/// Late turns against early ones.
const CPU_BUDGET: f64 = 1.2;

/// What the turns cost.
#[derive(Default)]
struct Growth {
    /// Bytes at each mark as the files lay there, write-ahead log included.
    lying: Vec<u64>,
    /// Bytes before the first turn, then at each mark, with the write-ahead log copied back and cut.
    settled: Vec<u64>,
    cpu: Vec<Duration>,
    wall: Vec<Duration>,
    /// The request of the middle of [`EARLY`], and of the last turn.
    bodies: Vec<Vec<u8>>,
}

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let model = Model::start()?;
    let thread = ThreadId::random();
    let (growth, reopened) = bench.runtime.block_on(async {
        let embedded = Embedded::open(&bench.dir, &model.base_url()).await?;
        let growth = grow(&embedded, &model, &thread).await?;
        Ok::<_, anyhow::Error>((growth, embedded.reopen().await?))
    })?;
    let mut rows = disk(&growth)?;
    rows.extend(cost(&growth, &model)?);
    rows.push(bench.runtime.block_on(read_all(&reopened, &thread))?);
    Ok(rows)
}

async fn grow(embedded: &Embedded, model: &Model, thread: &ThreadId) -> Result<Growth> {
    model.plan(Hold::Never, false);
    embedded.store.compact().await?;
    let mut growth = Growth { settled: vec![embedded.database_bytes()?], ..Growth::default() };
    for turn in 1..=TURNS {
        let before = our_cpu()?;
        let moments = embedded.run(thread, &format!("Turn {turn}: go on. [[script:plain tokens=20]]")).await?;
        growth.cpu.push(our_cpu()?.saturating_sub(before));
        growth.wall.push(moments.end - moments.start);
        if MARKS.contains(&turn) {
            growth.lying.push(embedded.database_bytes()?);
            embedded.store.compact().await?;
            growth.settled.push(embedded.database_bytes()?);
        }
        if turn == 20 || turn == TURNS {
            growth.bodies.push(model.bodies().pop().context("no request was kept")?);
        }
    }
    Ok(growth)
}

/// CPU time of this process without the scripted model's thread.
fn our_cpu() -> Result<Duration> {
    Ok(procfs::own_cpu()?.saturating_sub(procfs::named_threads_cpu(THREAD)?))
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
fn disk(growth: &Growth) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut from = 0;
    for (stretch, to) in growth.settled.windows(2).zip(MARKS) {
        let bytes = (stretch[1] as f64 - stretch[0] as f64) / (to - from) as f64;
        rows.push(Row::new(format!("bytes stored a turn, turns {}–{to}", from + 1), Sample::one("bytes", bytes)));
        from = to;
    }
    for (bytes, turns) in growth.lying.iter().zip(MARKS) {
        let size = Sample::one("MiB", *bytes as f64 / f64::from(1 << 20));
        let row = Row::new(format!("database after {turns} turns, write-ahead log included"), size);
        rows.push(row.budget(Statistic::P50, DISK_BUDGET));
    }
    Ok(rows)
}

fn cost(growth: &Growth, model: &Model) -> Result<Vec<Row>> {
    let part = |times: &[Duration], turns: std::ops::RangeInclusive<usize>| {
        Sample::of(times[turns.start() - 1..*turns.end()].iter().copied())
    };
    let (early, late) = (part(&growth.cpu, EARLY)?, part(&growth.cpu, LATE)?);
    let factor = late.median() / early.median();
    let (bare_early, bare_late) = (bare_cpu(model, &growth.bodies[0])?, bare_cpu(model, &growth.bodies[1])?);
    let bare_factor = bare_late.median() / bare_early.median();
    Ok(vec![
        Row::new("CPU a turn, late turns against early ones", Sample::one("×", factor))
            .beside("bare client, same requests", Sample::one("×", bare_factor))
            .budget(Statistic::P50, CPU_BUDGET),
        Row::new("CPU a turn, turns 381–400", late).beside("turns 11–30", early).note(format!(
            "request of {} KiB against {} KiB",
            growth.bodies[1].len() >> 10,
            growth.bodies[0].len() >> 10
        )),
        Row::new("wall a turn, turns 381–400", part(&growth.wall, LATE)?)
            .beside("turns 11–30", part(&growth.wall, EARLY)?),
    ])
}

/// CPU time of a bare client for one exchange; many in one reading, since the clock is coarse.
fn bare_cpu(model: &Model, body: &[u8]) -> Result<Sample> {
    const TOGETHER: u32 = 10;
    let mut client = Bare::connect(model.address())?;
    let mut times = Vec::new();
    for _ in 0..10 {
        let before = procfs::thread_cpu()?;
        for _ in 0..TOGETHER {
            client.exchange(body)?;
        }
        times.push((procfs::thread_cpu()? - before) / TOGETHER);
    }
    Sample::of(times)
}

/// Loads every checkpoint of the thread and checks that the last one has every turn.
async fn read_all(reopened: &Reopened, thread: &ThreadId) -> Result<Row> {
    let lineage = Lineage::root(thread.clone());
    let store = &reopened.store;
    let (mut before, mut times) = (None, Vec::new());
    loop {
        let page = store.history(&lineage, before.as_ref(), 100).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.id.clone());
        for entry in &page {
            let start = Instant::now();
            let checkpoint = store.load(&lineage, Some(&entry.id)).await?.context("a checkpoint is gone")?;
            let elapsed = start.elapsed();
            if times.is_empty() {
                let turns = checkpoint.state.messages.iter().filter(|message| message.is_genuine_user()).count();
                ensure!(turns == TURNS, "the last state has {turns} turns");
            }
            times.push(elapsed);
        }
    }
    ensure!(times.len() >= TURNS, "only {} history entries", times.len());
    store.close().await;
    let note = format!("all {} read after reopening", times.len());
    Ok(Row::new("load of a history entry", Sample::of(times)?).note(note))
}
