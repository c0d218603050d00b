-- One row is one message of a conversation. Positions count from the first message that is not a leading system message.
-- A branch begins where the history of an exchange differs from all known branches; earlier positions are in its parent.
-- Searches look up hundreds of messages at once, so the index must be wrong for few of them.
CREATE TABLE IF NOT EXISTS history
(
    conversation_id String CODEC(ZSTD(1)),
    branch          String COMMENT 'the exchange that began the branch' CODEC(ZSTD(1)),
    position        UInt32 CODEC(Delta(4), ZSTD(1)),
    message_id      String COMMENT 'id in messages; empty if the message was too large to be stored' CODEC(ZSTD(1)),
    role            LowCardinality(String) COMMENT 'as sent',
    parent          String COMMENT 'branch that contains the first positions of this one; empty if there is none' CODEC(ZSTD(1)),
    shared          UInt32 COMMENT 'number of positions in the parent' CODEC(T64, ZSTD(1)),
    service         LowCardinality(String),
    exchange_id     String COMMENT 'the first exchange that sent the message at this position' CODEC(ZSTD(1)),
    seq             UInt64 COMMENT 'stream sequence; version of the row' CODEC(Delta(8), ZSTD(1)),
    seen_at         DateTime64(9, 'UTC') COMMENT 'stream time' CODEC(Delta(8), ZSTD(1)),
    INDEX message_id_index message_id TYPE bloom_filter(0.0001) GRANULARITY 1,
    INDEX seen_at_index seen_at TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY (conversation_id, branch, position)
SETTINGS index_granularity = 1024, merge_selector_base = 10, min_parts_to_merge_at_once = 10;

CREATE VIEW IF NOT EXISTS history_final AS
SELECT * FROM history FINAL;
