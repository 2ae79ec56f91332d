-- Text that compaction took out of a thread.
CREATE TABLE archive_batches (
    batch_key  INTEGER PRIMARY KEY,
    thread_key BIGINT NOT NULL,
    batch_id   TEXT NOT NULL,
    digest     TEXT NOT NULL,
    records    BIGINT NOT NULL,
    omitted    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (thread_key, digest)
);
CREATE TABLE archive_records (
    record_key INTEGER PRIMARY KEY,
    thread_key BIGINT NOT NULL,
    batch_key  BIGINT NOT NULL,
    source_id  TEXT NOT NULL,
    role       TEXT NOT NULL,
    text       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (thread_key, source_id)
);
CREATE INDEX archive_records_by_batch ON archive_records (batch_key);
-- The row id is the record's key. `scope` holds a word for the thread and one for the role; in `body` every character of
-- Chinese, Japanese and Korean stands for itself.
CREATE VIRTUAL TABLE archive_index USING fts5 (
    scope, body, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);
