//! The disk, and what a commit costs over it.

use crate::Bench;
use crate::product::new_home;
use crate::report::Row;
use crate::stats::Sample;
use anyhow::{Context, Result};
use deerflow_core::ports::{StepCommit, StepKind, StepLog as _};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, Lineage, Message, NodeUpdate, StateUpdate, ThreadId, ThreadState};
use deerflow_store::{Durability, SqliteStore, StoreOptions};
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let repeats = bench.repeats(200, 30);
    let home = new_home(&bench.dir)?;
    let mut bare = File::create(home.path().join("bare"))?;
    let (mut disk, mut process, mut power) = (vec![], vec![], vec![]);
    bench.runtime.block_on(async {
        let mut for_process = Writer::open(&home.path().join("process.db"), Durability::Process).await?;
        let mut for_power = Writer::open(&home.path().join("power.db"), Durability::Power).await?;
        // The first commits make the thread and compile the statements.
        for _ in 0..3 {
            for_process.commit().await?;
            for_power.commit().await?;
        }
        for _ in 0..repeats {
            disk.push(write_and_sync(&mut bare)?);
            process.push(for_process.commit().await?);
            power.push(for_power.commit().await?);
        }
        for_process.store.close().await;
        for_power.store.close().await;
        Ok::<_, anyhow::Error>(())
    })?;
    let disk = Sample::of(disk)?;
    let row = |what: &str, times| {
        Ok::<_, anyhow::Error>(Row::new(what, Sample::of(times)?).beside("4 KiB write and fsync", disk.clone()))
    };
    Ok(vec![
        row("commit of a step, `durability: process`", process)?,
        row("commit of a step, `durability: power`", power)?,
    ])
}

/// 4 KiB over the same place, to the disk.
fn write_and_sync(file: &mut File) -> Result<Duration> {
    file.rewind()?;
    let start = Instant::now();
    file.write_all(&[7; 4096])?;
    file.sync_all()?;
    Ok(start.elapsed())
}

/// A thread that grows by one small message a step.
struct Writer {
    store: SqliteStore,
    lineage: Lineage,
    parent: Option<CheckpointId>,
    step: u64,
    state: ThreadState,
}

impl Writer {
    async fn open(path: &Path, durability: Durability) -> Result<Self> {
        let options = StoreOptions { durability, ..StoreOptions::default() };
        let store = SqliteStore::open(path, options).await?;
        let lineage = Lineage::root(ThreadId::parse("bench").context("a plain word is a thread id")?);
        Ok(Self { store, lineage, parent: None, step: 0, state: ThreadState::default() })
    }

    async fn commit(&mut self) -> Result<Duration> {
        let text = format!("message {} of a conversation that goes on for a while", self.step);
        let update = StateUpdate::messages([Message::human(text).with_id(format!("message-{}", self.step))]);
        self.state.apply(&update)?;
        let commit = StepCommit {
            lineage: self.lineage.clone(),
            run_id: None,
            parent: self.parent.clone(),
            branch: false,
            fence: None,
            kind: StepKind::Model,
            step: self.step,
            next: Next::Model,
            updates: vec![NodeUpdate { node: "model".to_owned(), update }],
            state: Arc::new(self.state.clone()),
            effects: Vec::new(),
            events: Vec::new(),
            outcome: None,
        };
        let start = Instant::now();
        let committed = self.store.commit(commit).await?;
        let elapsed = start.elapsed();
        self.parent = Some(committed.checkpoint_id.context("a step makes a checkpoint")?);
        self.step += 1;
        Ok(elapsed)
    }
}
