-- One row of messages is one part of a body, stored once however often it is sent: a message, the rest of a request, an
-- answer. What is still in use is written again now and then, with the same bytes, which renews its time to live. The id
-- begins with when its conversation began, so that what is alike and what is read together lies together; in
-- large blocks it takes half of what it takes in an order by hash. Words begin after the escapes of JSON.
CREATE TABLE IF NOT EXISTS messages
(
    id      String COMMENT 'hex: the second in which its conversation began, 0 for what all share, and SHA-256/128 of the captured bytes' CODEC(ZSTD(3)),
    kind    LowCardinality(String) COMMENT 'message, parameters (a request without its messages), answer',
    seen_at DateTime('UTC') COMMENT 'stream time; the version of the row' CODEC(Delta(4), ZSTD(1)),
    bytes   UInt32 COMMENT 'as captured' CODEC(T64, ZSTD(1)),
    body    String COMMENT 'redacted' CODEC(ZSTD(3)) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 4194304),
    INDEX seen_at_index seen_at TYPE minmax GRANULARITY 1,
    INDEX body_index replaceAll(replaceAll(lower(body), '\\n', ' '), '\\t', ' ') TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 2
)
ENGINE = ReplacingMergeTree(seen_at)
ORDER BY id
SETTINGS index_granularity_bytes = 1048576;

CREATE VIEW IF NOT EXISTS messages_final AS
SELECT * FROM messages FINAL;

-- One row of history is a message of a conversation. Positions count from the first message that is not a leading system
-- message. A branch begins where an exchange's history leaves all that are known; the positions before are its parent's.
CREATE TABLE IF NOT EXISTS history
(
    conversation_id String CODEC(ZSTD(1)),
    branch          String COMMENT 'the exchange that began it' CODEC(ZSTD(1)),
    position        UInt32 CODEC(Delta(4), ZSTD(1)),
    message_id      String COMMENT 'of messages; empty when it was too large to be stored' CODEC(ZSTD(1)),
    role            LowCardinality(String) COMMENT 'as sent',
    parent          String COMMENT 'branch whose first positions are those of this one; empty when it has none' CODEC(ZSTD(1)),
    shared          UInt32 COMMENT 'how many' CODEC(T64, ZSTD(1)),
    service         LowCardinality(String),
    exchange_id     String COMMENT 'the first that sent the message here' CODEC(ZSTD(1)),
    seq             UInt64 COMMENT 'stream sequence; the version of the row' CODEC(Delta(8), ZSTD(1)),
    seen_at         DateTime64(9, 'UTC') COMMENT 'stream time' CODEC(Delta(8), ZSTD(1)),
    INDEX message_id_index message_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX seen_at_index seen_at TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(seq)
ORDER BY (conversation_id, branch, position);

CREATE VIEW IF NOT EXISTS history_final AS
SELECT * FROM history FINAL;

-- A request is its leading system messages, its branch up to its number of messages, and the rest of its body; a message
-- with a cache mark is in marked. All are empty when bodies are not stored.
ALTER TABLE exchanges
    ADD COLUMN IF NOT EXISTS branch String COMMENT 'of history' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS lead Array(String) COMMENT 'ids of the leading system messages' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS marked Map(UInt32, String) COMMENT 'ids of messages with cache marks, by position' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS parameters String COMMENT 'id of the request without its messages' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS messages_at UInt32 COMMENT 'where they stood in it, in bytes' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS answer String COMMENT 'id of the answer' CODEC(ZSTD(1));

CREATE OR REPLACE VIEW exchanges_final AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
