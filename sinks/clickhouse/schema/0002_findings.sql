-- One row is one violation or signal in one conversation, however often the history that holds it is re-sent.
-- A row is written again, with a higher seq, when more is known: a stronger severity, a root cause. What stands in the
-- row may then differ: first_seen and exchange_id when the conversation was forgotten in between, the service when
-- another one goes on with it, the fingerprint with the root cause. Only the conversation is part of what finding_id is
-- a hash of; the sort key holds those two. No time of a finding is fixed, so there are no partitions by time: findings
-- are few (one per defect and conversation), and a row must not stand in two partitions.
CREATE TABLE IF NOT EXISTS findings
(
    finding_id      String CODEC(ZSTD(1)),
    fingerprint     String COMMENT 'the defect across conversations' CODEC(ZSTD(1)),
    seq             UInt64 COMMENT 'stream sequence; the version of the row' CODEC(Delta(8), ZSTD(1)),
    first_seen      DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    exchange_id     String COMMENT 'the first exchange that showed it' CODEC(ZSTD(1)),
    service         LowCardinality(String),
    service_version LowCardinality(String),
    environment     LowCardinality(String),
    agent           LowCardinality(String),
    stage           LowCardinality(String) COMMENT 'the agent when no stage was set',
    conversation_id String CODEC(ZSTD(1)),
    run_id          String CODEC(ZSTD(1)),
    user            String CODEC(ZSTD(1)),
    provider        LowCardinality(String),
    model           LowCardinality(String),
    dialect         LowCardinality(String),
    variant         LowCardinality(String),
    rule_id         LowCardinality(String),
    detail          LowCardinality(String),
    predicted       LowCardinality(String) COMMENT 'reject, lenient, style: what the target should do with it',
    severity        LowCardinality(String) COMMENT 'what it did: an accepted reject is lenient',
    status          UInt16 COMMENT 'HTTP status of the exchange',
    message_index   Int32 COMMENT '0-based index in messages as sent; -1 when no message is concerned',
    tool_call_id    String CODEC(ZSTD(1)),
    tool_name       LowCardinality(String),
    summary         String CODEC(ZSTD(3)),
    root_cause      LowCardinality(String) COMMENT 'empty when the history says nothing yet',
    confidence      LowCardinality(String) COMMENT 'high, medium, low',
    evidence        String COMMENT 'what the answer said and what the next request sent' CODEC(ZSTD(3)),
    fix             String CODEC(ZSTD(3)),
    INDEX first_seen_index first_seen TYPE minmax GRANULARITY 1,
    INDEX finding_id_index finding_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX fingerprint_index fingerprint TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX exchange_id_index exchange_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX tool_call_id_index tool_call_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY (conversation_id, finding_id);

CREATE VIEW IF NOT EXISTS findings_final AS
SELECT * FROM findings FINAL;
