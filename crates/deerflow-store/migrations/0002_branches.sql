-- Checkpoint ids are unique within their lineage: a forked thread keeps those of its original.
CREATE TABLE new_steps (
    step_key      INTEGER PRIMARY KEY,
    lineage_key   BIGINT NOT NULL,
    ordinal       BIGINT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    parent        TEXT,
    run_id        TEXT,
    kind          TEXT NOT NULL,
    step          BIGINT NOT NULL,
    next          TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    updates       TEXT NOT NULL,
    UNIQUE (lineage_key, ordinal),
    UNIQUE (lineage_key, checkpoint_id)
);
INSERT INTO new_steps SELECT step_key, lineage_key, ordinal, checkpoint_id, parent, run_id, kind, step, next, created_at,
    updates FROM steps;
DROP TABLE steps;
ALTER TABLE new_steps RENAME TO steps;

-- Steps whose parent is not the one before them, by its ordinal; -1 when they have none. Ordinals only grow: a step, and
-- those that follow it up to the next row here, stand on the base.
CREATE TABLE branches (
    lineage_key  BIGINT NOT NULL,
    ordinal      BIGINT NOT NULL,
    base_ordinal BIGINT NOT NULL,
    PRIMARY KEY (lineage_key, ordinal)
) WITHOUT ROWID;

-- A thread without a marker is stored in the default mode.
UPDATE threads SET mode = 'full' WHERE mode = '';
