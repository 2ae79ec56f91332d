-- What users say while a run works. The content is a message, with no reference to other content.
CREATE TABLE run_inputs (
    thread_key   BIGINT NOT NULL,
    run_input_id TEXT NOT NULL,
    run_id       TEXT NOT NULL,
    seq          BIGINT NOT NULL,
    content      TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    state        TEXT NOT NULL,
    PRIMARY KEY (thread_key, run_input_id)
);
CREATE UNIQUE INDEX run_inputs_by_seq ON run_inputs (thread_key, seq);
-- Those that wait for something.
CREATE INDEX run_inputs_waiting ON run_inputs (thread_key, run_id, seq) WHERE state <> 'acknowledged';
