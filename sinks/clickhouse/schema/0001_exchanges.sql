-- One row is one LLM call: its request and its response, or the fact that no response arrived.
-- A row is written again when the call is read again from the stream, or when its response arrives after the timeout; the
-- highest seq wins. The hour of the start, the service and the id are the same in each write, so the sort key contains only
-- those. The hour comes first: FINAL merges only parts whose keys overlap, and parts of different times do not. Granules are small
-- so that an hour has several, of different services. A merge has a buffer of max_compress_block_size for each column: with
-- the default of 1 MiB, 12 parts of 10,000 rows take 300 MB.
-- A request consists of its leading system messages, the messages of its branch up to its number of messages, and the rest
-- of its body; messages with a cache mark are in marked. These columns are empty if bodies are not stored.
CREATE TABLE IF NOT EXISTS exchanges
(
    exchange_id         String CODEC(ZSTD(1)),
    seq                 UInt64 COMMENT 'stream sequence of the completing event; version of the row' CODEC(Delta(8), ZSTD(1)),
    service             LowCardinality(String),
    service_version     LowCardinality(String),
    environment         LowCardinality(String),
    agent               LowCardinality(String),
    stage               LowCardinality(String) COMMENT 'the agent if no stage is set',
    conversation_id     String CODEC(ZSTD(1)),
    run_id              String CODEC(ZSTD(1)),
    user                String CODEC(ZSTD(1)),
    attributes          Map(LowCardinality(String), String) COMMENT 'attributes set by the agent, such as tenant; credentials and mail addresses are masked' CODEC(ZSTD(1)),
    started_at          DateTime64(9, 'UTC') COMMENT 'when the request was sent, by the clock of the agent' CODEC(Delta(8), ZSTD(1)),
    stored_at           DateTime64(9, 'UTC') COMMENT 'when the stream stored the completing event' CODEC(Delta(8), ZSTD(1)),
    inferred            Bool COMMENT 'conversation_id was inferred from responses',
    operation           LowCardinality(String),
    provider            LowCardinality(String),
    server              LowCardinality(String),
    path                String CODEC(ZSTD(1)),
    dialect             LowCardinality(String),
    variant             LowCardinality(String),
    model               LowCardinality(String),
    response_model      LowCardinality(String),
    status              UInt16 COMMENT 'HTTP status; 0 if no response arrived',
    failed              Bool COMMENT 'status >= 400, an error inside a 200, or no response',
    error_type          LowCardinality(String),
    cause               LowCardinality(String) COMMENT 'why the call failed; empty on success',
    cause_known         LowCardinality(String) COMMENT 'stated, guessed, inferred, both, conflict, none',
    cause_class         LowCardinality(String),
    root_cause          LowCardinality(String) COMMENT 'what the agent did to cause the failure',
    error_text          String COMMENT 'error text of the provider, redacted' CODEC(ZSTD(3)),
    error_cluster       String CODEC(ZSTD(1)),
    input_tokens        Nullable(Int64) COMMENT 'NULL if the response reports no usage' CODEC(T64, ZSTD(1)),
    output_tokens       Nullable(Int64) CODEC(T64, ZSTD(1)),
    cached_tokens       Nullable(Int64) COMMENT 'part of input_tokens' CODEC(T64, ZSTD(1)),
    duration            Float64 COMMENT 'seconds' CODEC(ZSTD(1)),
    first_byte          Float64 COMMENT 'seconds' CODEC(ZSTD(1)),
    finish_reason       LowCardinality(String),
    stream              Bool,
    request_bytes       UInt64 CODEC(T64, ZSTD(1)),
    response_bytes      UInt64 CODEC(T64, ZSTD(1)),
    messages            UInt32 COMMENT 'messages in the request' CODEC(T64, ZSTD(1)),
    tool_calls          UInt32 COMMENT 'tool calls in the response' CODEC(T64, ZSTD(1)),
    findings            UInt32 COMMENT 'violations in the request, including earlier ones' CODEC(T64, ZSTD(1)),
    rejects             UInt32 COMMENT 'findings with predicted = reject' CODEC(T64, ZSTD(1)),
    retry               UInt16 COMMENT 'attempt number of the SDK; 0 for the first',
    instance            String CODEC(ZSTD(1)),
    instance_seq        UInt64 CODEC(Delta(8), ZSTD(1)),
    origin              LowCardinality(String),
    capture             LowCardinality(String),
    sdk                 LowCardinality(String) COMMENT 'hook and its version',
    degraded            Bool COMMENT 'absent data is not evidence',
    provider_request_id String CODEC(ZSTD(1)),
    response_id         String CODEC(ZSTD(1)),
    prompt_hash         UInt64 COMMENT 'of the system prompt; 0 if there is none. In shape mode it depends on the lengths of texts only, as tools_hash does' CODEC(ZSTD(1)),
    tools_hash          UInt64 COMMENT 'of the declarations of the tools; 0 if there are none' CODEC(ZSTD(1)),
    tools               Array(LowCardinality(String)) COMMENT 'names of the declared tools' CODEC(ZSTD(1)),
    settings            Map(LowCardinality(String), String) COMMENT 'parameters such as temperature: short values as JSON, long ones as a hash' CODEC(ZSTD(1)),
    branch              String COMMENT 'branch in history' CODEC(ZSTD(1)),
    lead                Array(String) COMMENT 'message ids of the leading system messages' CODEC(ZSTD(1)),
    marked              Map(UInt32, String) COMMENT 'message ids of the messages with cache marks, by position' CODEC(ZSTD(1)),
    parameters          String COMMENT 'message id of the request without its messages' CODEC(ZSTD(1)),
    messages_at         UInt32 COMMENT 'byte offset of the messages in parameters' CODEC(T64, ZSTD(1)),
    answer              String COMMENT 'message id of the response' CODEC(ZSTD(1)),
    INDEX stored_at_index stored_at TYPE minmax GRANULARITY 1,
    INDEX exchange_id_index exchange_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX conversation_id_index conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX answer_index answer TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX user_index user TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX attribute_keys_index mapKeys(attributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX attribute_values_index mapValues(attributes) TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(seq)
PARTITION BY toYYYYMM(started_at)
ORDER BY (toStartOfHour(started_at), service, exchange_id)
SETTINGS index_granularity = 2048, max_compress_block_size = 131072, merge_selector_base = 10, min_parts_to_merge_at_once = 10;

-- A row stays in its partition in all writes, so FINAL merges the partitions independently and in parallel.
CREATE VIEW IF NOT EXISTS exchanges_final AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
