-- One row is one run of an agent that sends run events.
-- A row is written when the run starts and again when it ends. Either event may be missing, so neither time is in a key.
CREATE TABLE IF NOT EXISTS runs
(
    id               String COMMENT 'hash of service and run' CODEC(ZSTD(1)),
    seq              UInt64 COMMENT 'stream sequence; version of the row' CODEC(Delta(8), ZSTD(1)),
    service          LowCardinality(String),
    service_version  LowCardinality(String),
    environment      LowCardinality(String),
    agent            LowCardinality(String),
    stage            LowCardinality(String) COMMENT 'the agent if no stage is set',
    conversation_id  String CODEC(ZSTD(1)),
    run_id           String CODEC(ZSTD(1)),
    user             String CODEC(ZSTD(1)),
    status           LowCardinality(String) COMMENT 'started, ok, error, cancelled',
    seen_at          DateTime64(9, 'UTC') COMMENT 'stream time of this version' CODEC(Delta(8), ZSTD(1)),
    started_at       Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL if unknown' CODEC(Delta(8), ZSTD(1)),
    ended_at         Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL while the run is in progress' CODEC(Delta(8), ZSTD(1)),
    calls            UInt32 COMMENT 'completed exchanges, without SDK retries' CODEC(T64, ZSTD(1)),
    failed_calls     UInt32 CODEC(T64, ZSTD(1)),
    last_exchange_id String CODEC(ZSTD(1)),
    last_status      UInt16 COMMENT 'HTTP status of last_exchange_id; 0 if no response arrived',
    last_cause       LowCardinality(String) COMMENT 'empty if the last exchange did not fail',
    INDEX run_id_index run_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX conversation_id_index conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX seen_at_index seen_at TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY id;

CREATE VIEW IF NOT EXISTS runs_final AS
SELECT * FROM runs FINAL;
