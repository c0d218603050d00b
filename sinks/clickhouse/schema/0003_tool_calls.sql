-- One row is one tool call made by a model, and its outcome.
-- A row is written when the call is made (open) and again when its reply arrives or is known to be missing. The exchange
-- that requested the call determines the id and the time; the service that replies, and its labels, are not known then. The id is
-- a hash, so rows of an hour are together only because the hour precedes it in the sort key.
CREATE TABLE IF NOT EXISTS tool_calls
(
    id              String COMMENT 'hash of the exchange that requested the call, the position and the call id' CODEC(ZSTD(1)),
    seq             UInt64 COMMENT 'stream sequence; version of the row' CODEC(Delta(8), ZSTD(1)),
    service         LowCardinality(String),
    service_version LowCardinality(String),
    environment     LowCardinality(String),
    agent           LowCardinality(String),
    stage           LowCardinality(String) COMMENT 'the agent if no stage is set',
    conversation_id String CODEC(ZSTD(1)),
    run_id          String CODEC(ZSTD(1)),
    user            String CODEC(ZSTD(1)),
    attributes      Map(LowCardinality(String), String) COMMENT 'as in exchanges' CODEC(ZSTD(1)),
    exchange_id     String COMMENT 'the exchange whose response requested the call' CODEC(ZSTD(1)),
    tool_call_id    String COMMENT 'id from the provider; not unique' CODEC(ZSTD(1)),
    tool_name       LowCardinality(String),
    state           LowCardinality(String) COMMENT 'open, answered, missing, duplicate, late, rejected, abandoned, terminal',
    asked_at        DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    answered_at     Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL while open' CODEC(Delta(8), ZSTD(1)),
    answered_by     String COMMENT 'the exchange whose request contained the reply' CODEC(ZSTD(1)),
    started_at      Nullable(DateTime64(9, 'UTC')) COMMENT 'when the tool started; NULL if the agent does not report it' CODEC(Delta(8), ZSTD(1)),
    ended_at        Nullable(DateTime64(9, 'UTC')) COMMENT 'when the tool ended' CODEC(Delta(8), ZSTD(1)),
    tool_status     LowCardinality(String) COMMENT 'started, ok, error, cancelled; empty if the agent does not report it',
    INDEX exchange_id_index exchange_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX conversation_id_index conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX tool_call_id_index tool_call_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(seq)
PARTITION BY toYYYYMM(asked_at)
ORDER BY (toStartOfHour(asked_at), id)
SETTINGS merge_selector_base = 10, min_parts_to_merge_at_once = 10;

CREATE VIEW IF NOT EXISTS tool_calls_final AS
SELECT * FROM tool_calls FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
