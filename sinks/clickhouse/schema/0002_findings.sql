-- One row is one violation or signal in one conversation, however often the history that contains it is sent again. The
-- rule_id of a signal is the name of the signal and its severity is signal.
-- A row is written again, with a higher seq, when more is known: a stronger severity, a root cause. The rewritten row may
-- have another first_seen and exchange_id (if the conversation was evicted in between), another service (if another one
-- continues the conversation) and another fingerprint (with the root cause). finding_id is a hash of the conversation among
-- other things, so the sort key contains only those two. No time of a finding is constant, so the table has no partitions by
-- time: findings are few (one per defect and conversation), and a row must not be in two partitions. The projection lists the
-- keys of the findings of a time range, of all versions. Their rows are read by key, scattered over the table, so granules and
-- compressed blocks are small. A minmax index on first_seen would not help: FINAL also reads all granules whose keys overlap those
-- of the selected ones, and the keys of a new part overlap all.
CREATE TABLE IF NOT EXISTS findings
(
    finding_id         String CODEC(ZSTD(1)),
    fingerprint        String COMMENT 'identifies the defect across conversations' CODEC(ZSTD(1)),
    first_version      LowCardinality(String) COMMENT 'first service version that showed the defect in any conversation',
    last_clean_version LowCardinality(String) COMMENT 'newest other version of the stage that made calls before; empty if there was none',
    seq                UInt64 COMMENT 'stream sequence; version of the row' CODEC(Delta(8), ZSTD(1)),
    first_seen         DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    exchange_id        String COMMENT 'the first exchange that showed it' CODEC(ZSTD(1)),
    exchange_version   LowCardinality(String) COMMENT 'service version of exchange_id; service_version may be newer',
    exchange_instance  String COMMENT 'the process that sent exchange_id' CODEC(ZSTD(1)),
    exchange_messages  UInt32 COMMENT 'messages in the request of exchange_id: the length of the conversation' CODEC(T64, ZSTD(1)),
    service            LowCardinality(String),
    service_version    LowCardinality(String),
    environment        LowCardinality(String),
    agent              LowCardinality(String),
    stage              LowCardinality(String) COMMENT 'the agent if no stage is set',
    conversation_id    String CODEC(ZSTD(1)),
    run_id             String CODEC(ZSTD(1)),
    user               String CODEC(ZSTD(1)),
    attributes         Map(LowCardinality(String), String) COMMENT 'as in exchanges' CODEC(ZSTD(1)),
    provider           LowCardinality(String),
    model              LowCardinality(String),
    dialect            LowCardinality(String),
    variant            LowCardinality(String),
    rule_id            LowCardinality(String),
    detail             LowCardinality(String),
    predicted          LowCardinality(String) COMMENT 'reject, lenient, style: the expected reaction of the target',
    severity           LowCardinality(String) COMMENT 'the actual reaction: an accepted reject is lenient',
    rejected_by        Array(LowCardinality(String)) COMMENT 'of latent_violation: dialect/variant of the targets that would reject the accepted request',
    status             UInt16 COMMENT 'HTTP status of the exchange',
    message_index      Int32 COMMENT '0-based index in messages as sent; -1 if the finding concerns no message',
    tool_call_id       String CODEC(ZSTD(1)),
    tool_name          LowCardinality(String),
    summary            String CODEC(ZSTD(3)),
    root_cause         LowCardinality(String) COMMENT 'empty if the history does not show it yet',
    confidence         LowCardinality(String) COMMENT 'high, medium, low',
    evidence           String COMMENT 'what the response contained and what the next request sent' CODEC(ZSTD(3)),
    fix                String CODEC(ZSTD(3)),
    INDEX finding_id_index finding_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX fingerprint_index fingerprint TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX exchange_id_index exchange_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX tool_call_id_index tool_call_id TYPE bloom_filter(0.01) GRANULARITY 1,
    PROJECTION by_time (SELECT first_seen, conversation_id, finding_id ORDER BY first_seen)
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY (conversation_id, finding_id)
SETTINGS index_granularity = 128, min_compress_block_size = 2048, deduplicate_merge_projection_mode = 'rebuild';

CREATE VIEW IF NOT EXISTS findings_final AS
SELECT * FROM findings FINAL;
