-- One row is one alert from its start to its end, replaced whenever it changes. The id is a hash that includes started_at.
CREATE TABLE IF NOT EXISTS alerts
(
    alert_id    String CODEC(ZSTD(1)),
    version     UInt64 COMMENT 'Unix nanoseconds of the change; version of the row' CODEC(Delta(8), ZSTD(1)),
    name        LowCardinality(String),
    severity    LowCardinality(String),
    labels      Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    state       LowCardinality(String) COMMENT 'firing, resolved',
    started_at  DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    ended_at    Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL while firing' CODEC(Delta(8), ZSTD(1)),
    value       Float64 COMMENT 'at the last evaluation',
    peak        Float64,
    failed      UInt64 COMMENT 'failed calls in the window, exact',
    calls       UInt64,
    shares      Map(LowCardinality(String), UInt64) COMMENT 'failed calls by root cause, or by cause if there is none' CODEC(ZSTD(1)),
    first_bad   LowCardinality(String) COMMENT 'first service version that shows the failure; empty if unknown',
    last_clean  LowCardinality(String),
    example     String COMMENT 'an exchange_id' CODEC(ZSTD(1)),
    summary     String CODEC(ZSTD(3)),
    notified_at Nullable(DateTime64(9, 'UTC')) CODEC(Delta(8), ZSTD(1))
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(started_at)
ORDER BY (started_at, alert_id);

CREATE VIEW IF NOT EXISTS alerts_final AS
SELECT * FROM alerts FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
