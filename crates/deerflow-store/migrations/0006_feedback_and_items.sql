-- What users think of answers: one per run, and one per message of it (`message_id` is '' for the run as a whole).
CREATE TABLE feedback (
    feedback_id TEXT PRIMARY KEY,
    thread_key  BIGINT NOT NULL,
    run_id      TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    rating      SMALLINT NOT NULL,
    comment     TEXT,
    created_at  BIGINT NOT NULL,
    UNIQUE (thread_key, run_id, user_id, message_id)
);

-- Values that clients keep beside threads. A namespace is its labels with a dot after each, `a.b.`: no label has a dot.
CREATE TABLE items (
    user_id    TEXT NOT NULL,
    namespace  TEXT NOT NULL,
    item_key   TEXT NOT NULL,
    value      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- How long it lives after its last write or refresh, in microseconds, and until when.
    ttl        BIGINT,
    expires_at BIGINT,
    PRIMARY KEY (user_id, namespace, item_key)
);
CREATE INDEX items_by_expiry ON items (expires_at) WHERE expires_at IS NOT NULL;
