-- Facts about a journal row, as JSON; null when there are none.
ALTER TABLE events ADD COLUMN metadata TEXT;

-- Messages were wrapped in an object with the node that wrote them, under names of our own.
UPDATE events SET event = CASE event WHEN 'human.message' THEN 'llm.human.input' WHEN 'ai.message' THEN 'llm.ai.response'
            ELSE 'llm.tool.result' END,
        metadata = json_object('node', content ->> '$.node', 'caller', 'lead_agent'), content = content -> '$.message'
    WHERE category = 'message' AND event IN ('human.message', 'ai.message', 'tool.message')
        AND json_type(content, '$.message') = 'object';

-- Tokens of runs, by model and by who asked it (`lead_agent`, `subagent:…`, `middleware:…`). Counted in the transaction that
-- writes the journal row of a model call, so that no count is lost or made twice, whenever a process dies.
CREATE TABLE run_usage (
    thread_key    BIGINT NOT NULL,
    run_id        TEXT NOT NULL,
    model         TEXT NOT NULL,
    caller        TEXT NOT NULL,
    calls         BIGINT NOT NULL,
    input_tokens  BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    total_tokens  BIGINT NOT NULL,
    cache_read    BIGINT NOT NULL,
    PRIMARY KEY (thread_key, run_id, model, caller)
) WITHOUT ROWID;

CREATE TRIGGER count_usage AFTER INSERT ON events WHEN new.event = 'llm.usage' BEGIN
    INSERT INTO run_usage (thread_key, run_id, model, caller, calls, input_tokens, output_tokens, total_tokens, cache_read)
        VALUES (new.thread_key, new.run_id, COALESCE(new.metadata ->> '$.model', 'unknown'),
            COALESCE(new.metadata ->> '$.caller', 'lead_agent'), 1, COALESCE(new.metadata ->> '$.usage.input_tokens', 0),
            COALESCE(new.metadata ->> '$.usage.output_tokens', 0), COALESCE(new.metadata ->> '$.usage.total_tokens', 0),
            COALESCE(new.metadata ->> '$.usage.input_token_details.cache_read', 0))
        ON CONFLICT (thread_key, run_id, model, caller) DO UPDATE SET calls = calls + 1,
            input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
            total_tokens = total_tokens + excluded.total_tokens, cache_read = cache_read + excluded.cache_read;
END;

-- Of older runs only the sum is known.
INSERT INTO run_usage (thread_key, run_id, model, caller, calls, input_tokens, output_tokens, total_tokens, cache_read)
    SELECT thread_key, run_id, COALESCE(options ->> '$.model', 'unknown'), 'lead_agent', 0, usage ->> '$.input_tokens',
        usage ->> '$.output_tokens', usage ->> '$.total_tokens',
        COALESCE(usage ->> '$.input_token_details.cache_read', 0)
    FROM runs WHERE usage ->> '$.total_tokens' > 0;
