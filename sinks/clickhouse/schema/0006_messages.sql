-- One row of messages is one part of a body, stored once however often it is sent: a message, the rest of a request, or a
-- response. Parts still in use are written again from time to time, with the same bytes, which renews their TTL. The id
-- begins with the start time of the conversation, so that similar parts and parts that are read together are stored next to
-- each other; in large blocks this halves the storage compared to ids ordered by hash. The index starts words after the
-- escape sequences of JSON.
CREATE TABLE IF NOT EXISTS messages
(
    id      String COMMENT 'hex: 12 digits for the millisecond in which the conversation began, 0 for shared parts, then the beginning of the SHA-256 of the captured bytes' CODEC(ZSTD(3)),
    kind    LowCardinality(String) COMMENT 'message, parameters (a request without its messages), answer',
    seen_at DateTime('UTC') COMMENT 'stream time; version of the row' CODEC(Delta(4), ZSTD(1)),
    bytes   UInt32 COMMENT 'size as captured' CODEC(T64, ZSTD(1)),
    body    String COMMENT 'redacted' CODEC(ZSTD(2)) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 4194304),
    INDEX seen_at_index seen_at TYPE minmax GRANULARITY 1,
    INDEX body_index replaceAll(replaceAll(lower(body), '\\n', ' '), '\\t', ' ') TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 2
)
ENGINE = ReplacingMergeTree(seen_at)
ORDER BY id
SETTINGS index_granularity_bytes = 1048576, merge_selector_base = 16, min_parts_to_merge_at_once = 16;

CREATE VIEW IF NOT EXISTS messages_final AS
SELECT * FROM messages FINAL;
