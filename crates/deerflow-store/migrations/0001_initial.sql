-- Portable column types only: TEXT, BIGINT, SMALLINT, BLOB. Times are microseconds since 1970, UTC.
-- `*_key` columns are internal numbers: short in indexes, never shown outside.

CREATE TABLE threads (
    thread_key INTEGER PRIMARY KEY,
    thread_id  TEXT NOT NULL UNIQUE,
    user_id    TEXT NOT NULL,
    title      TEXT,
    metadata   TEXT NOT NULL,
    status     TEXT NOT NULL,
    mode       TEXT NOT NULL,
    last_seq   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX threads_by_user ON threads (user_id, updated_at);

CREATE TABLE runs (
    run_key         INTEGER PRIMARY KEY,
    run_id          TEXT NOT NULL UNIQUE,
    thread_key      BIGINT NOT NULL,
    user_id         TEXT NOT NULL,
    status          TEXT NOT NULL,
    worker_id       TEXT NOT NULL,
    worker_label    TEXT NOT NULL,
    epoch           BIGINT NOT NULL,
    input           TEXT NOT NULL,
    options         TEXT NOT NULL,
    error           TEXT,
    stop_reason     TEXT,
    usage           TEXT NOT NULL,
    idempotency_key TEXT,
    -- The run's journal rows lie in (first_seq, last_seq]; last_seq is null while it lives.
    first_seq       BIGINT NOT NULL,
    last_seq        BIGINT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL
);
-- One live run per thread.
CREATE UNIQUE INDEX runs_live ON runs (thread_key) WHERE status IN ('pending', 'running');
CREATE UNIQUE INDEX runs_by_key ON runs (thread_key, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_by_user ON runs (user_id, created_at);
CREATE INDEX runs_by_thread ON runs (thread_key, created_at);

-- A line of checkpoints: the thread's own (namespace '') or a sub-agent's. head_id is '' before the first step.
CREATE TABLE lineages (
    lineage_key       INTEGER PRIMARY KEY,
    thread_key        BIGINT NOT NULL,
    namespace         TEXT NOT NULL,
    head_id           TEXT NOT NULL,
    head_ordinal      BIGINT NOT NULL,
    -- Bytes of `updates` since the last snapshot, where that was, and how large its channels were.
    log_bytes         BIGINT NOT NULL,
    snapshot_ordinal  BIGINT NOT NULL,
    snapshot_channels BIGINT NOT NULL,
    UNIQUE (thread_key, namespace)
);

CREATE TABLE steps (
    step_key      INTEGER PRIMARY KEY,
    lineage_key   BIGINT NOT NULL,
    ordinal       BIGINT NOT NULL,
    checkpoint_id TEXT NOT NULL UNIQUE,
    parent        TEXT,
    run_id        TEXT,
    kind          TEXT NOT NULL,
    step          BIGINT NOT NULL,
    next          TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    updates       TEXT NOT NULL,
    UNIQUE (lineage_key, ordinal)
);

CREATE TABLE snapshots (
    lineage_key BIGINT NOT NULL,
    ordinal     BIGINT NOT NULL,
    messages    BLOB NOT NULL,
    channels    TEXT NOT NULL,
    PRIMARY KEY (lineage_key, ordinal)
);

CREATE TABLE effects (
    lineage_key BIGINT NOT NULL,
    run_id      TEXT NOT NULL,
    step        BIGINT NOT NULL,
    call_index  BIGINT NOT NULL,
    -- Checkpoint after which the batch began.
    ordinal     BIGINT NOT NULL,
    call_id     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    fingerprint TEXT,
    finished    TEXT,
    end_run     SMALLINT NOT NULL,
    PRIMARY KEY (lineage_key, run_id, step, call_index)
);

-- Content of one thread by hash (BLAKE3, 128 bits). Per thread, so that deleting a thread deletes its content and
-- nobody can tell whether another user holds the same.
CREATE TABLE blobs (
    thread_key BIGINT NOT NULL,
    hash       BLOB NOT NULL,
    data       BLOB NOT NULL,
    PRIMARY KEY (thread_key, hash)
);

CREATE TABLE events (
    thread_key BIGINT NOT NULL,
    seq        BIGINT NOT NULL,
    run_id     TEXT NOT NULL,
    category   TEXT NOT NULL,
    event      TEXT NOT NULL,
    content    TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (thread_key, seq)
);
