-- Ownership and order of runs.
--
-- Until when the owner of a live run may be taken for alive, in microseconds since 1970; null for one that keeps no lease.
ALTER TABLE runs ADD COLUMN lease_until BIGINT;
-- `interrupt` or `rollback`, when somebody asked the owner to stop.
ALTER TABLE runs ADD COLUMN cancel_action TEXT;
-- Of a run that waits (status `queued`): not before this instant.
ALTER TABLE runs ADD COLUMN not_before BIGINT;
-- Counters of a run that has ended, as JSON.
ALTER TABLE runs ADD COLUMN counts TEXT;
CREATE INDEX runs_queued ON runs (thread_key, not_before) WHERE status = 'queued';
