-- One row is one run of an agent that sends run events. Rows of tool calls say what their tools did, if the agent tells.
-- A run's row is written when it starts and again when it ends; which of its events come is not known before, so neither
-- time is in a key. A view keeps the columns it was made with, so it is made again.
CREATE TABLE IF NOT EXISTS runs
(
    id               String COMMENT 'of the row: hash of service and run' CODEC(ZSTD(1)),
    seq              UInt64 COMMENT 'stream sequence; the version of the row' CODEC(Delta(8), ZSTD(1)),
    service          LowCardinality(String),
    service_version  LowCardinality(String),
    environment      LowCardinality(String),
    agent            LowCardinality(String),
    stage            LowCardinality(String) COMMENT 'the agent when no stage was set',
    conversation_id  String CODEC(ZSTD(1)),
    run_id           String CODEC(ZSTD(1)),
    user             String CODEC(ZSTD(1)),
    status           LowCardinality(String) COMMENT 'started, ok, error, cancelled',
    seen_at          DateTime64(9, 'UTC') COMMENT 'stream time of this version' CODEC(Delta(8), ZSTD(1)),
    started_at       Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL when that is not known' CODEC(Delta(8), ZSTD(1)),
    ended_at         Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL while it runs' CODEC(Delta(8), ZSTD(1)),
    calls            UInt32 COMMENT 'exchanges that are over, without further attempts of an SDK' CODEC(T64, ZSTD(1)),
    failed_calls     UInt32 CODEC(T64, ZSTD(1)),
    last_exchange_id String CODEC(ZSTD(1)),
    last_status      UInt16 COMMENT 'HTTP status of last_exchange_id; 0 when no answer came',
    last_cause       LowCardinality(String) COMMENT 'empty when the last exchange did not fail',
    INDEX run_id_index run_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX conversation_id_index conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX seen_at_index seen_at TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY id;

CREATE VIEW IF NOT EXISTS runs_final AS
SELECT * FROM runs FINAL;

ALTER TABLE tool_calls
    MODIFY COLUMN IF EXISTS state COMMENT 'open, answered, missing, duplicate, late, rejected, abandoned, terminal',
    ADD COLUMN IF NOT EXISTS started_at Nullable(DateTime64(9, 'UTC')) COMMENT 'when the tool started; NULL when the agent does not tell' CODEC(Delta(8), ZSTD(1)),
    ADD COLUMN IF NOT EXISTS ended_at Nullable(DateTime64(9, 'UTC')) COMMENT 'when the tool ended' CODEC(Delta(8), ZSTD(1)),
    ADD COLUMN IF NOT EXISTS tool_status LowCardinality(String) COMMENT 'started, ok, error, cancelled; empty when the agent does not tell';

CREATE OR REPLACE VIEW tool_calls_final AS
SELECT * FROM tool_calls FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
