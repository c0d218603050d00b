CREATE DATABASE IF NOT EXISTS `llmtap` ON CLUSTER 'main';

USE `llmtap`;

CREATE TABLE IF NOT EXISTS migrations ON CLUSTER 'main'
(
    number     UInt32,
    name       String,
    checksum   String COMMENT 'SHA-256 of the file',
    applied_at DateTime64(3, 'UTC')
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}', '{shard}-{replica}')
ORDER BY (number, checksum);

-- 0001_exchanges.sql

-- One row is one LLM call: its request and its response, or the fact that no response arrived.
-- A row is written again when the call is read again from the stream, or when its response arrives after the timeout; the
-- highest seq wins. The hour of the start, the service and the id are the same in each write, so the sort key contains only
-- those. The hour comes first: FINAL merges only parts whose keys overlap, and parts of different times do not. Granules are small
-- so that an hour has several, of different services. A merge has a buffer of max_compress_block_size for each column: with
-- the default of 1 MiB, 12 parts of 10,000 rows take 300 MB.
-- A request consists of its leading system messages, the messages of its branch up to its number of messages, and the rest
-- of its body; messages with a cache mark are in marked. These columns are empty if bodies are not stored.
CREATE TABLE IF NOT EXISTS exchanges_local ON CLUSTER 'main'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seq)
PARTITION BY toYYYYMM(started_at)
ORDER BY (toStartOfHour(started_at), service, exchange_id)
SETTINGS index_granularity = 2048, max_compress_block_size = 131072, merge_selector_base = 10, min_parts_to_merge_at_once = 10;

CREATE TABLE IF NOT EXISTS exchanges ON CLUSTER 'main' AS `llmtap`.exchanges_local
ENGINE = Distributed('main', 'llmtap', 'exchanges_local', cityHash64(exchange_id));

-- A row stays in its partition in all writes, so FINAL merges the partitions independently and in parallel.
CREATE VIEW IF NOT EXISTS exchanges_final ON CLUSTER 'main' AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (1, '0001_exchanges.sql', '7f5b5b24ed68ff7f46a4cd8533097e4cabe38cafb8158f0891c50afb2972b3fb', now64(3));

-- 0002_findings.sql

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
CREATE TABLE IF NOT EXISTS findings_local ON CLUSTER 'main'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seq)
ORDER BY (conversation_id, finding_id)
SETTINGS index_granularity = 128, min_compress_block_size = 2048, deduplicate_merge_projection_mode = 'rebuild';

CREATE TABLE IF NOT EXISTS findings ON CLUSTER 'main' AS `llmtap`.findings_local
ENGINE = Distributed('main', 'llmtap', 'findings_local', cityHash64(conversation_id));

CREATE VIEW IF NOT EXISTS findings_final ON CLUSTER 'main' AS
SELECT * FROM findings FINAL;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (2, '0002_findings.sql', '03ca033e00fff7be32369318332d3114100db8d48fb7c90d0bc2c0a6ff102e21', now64(3));

-- 0003_tool_calls.sql

-- One row is one tool call made by a model, and its outcome.
-- A row is written when the call is made (open) and again when its reply arrives or is known to be missing. The exchange
-- that requested the call determines the id and the time; the service that replies, and its labels, are not known then. The id is
-- a hash, so rows of an hour are together only because the hour precedes it in the sort key.
CREATE TABLE IF NOT EXISTS tool_calls_local ON CLUSTER 'main'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seq)
PARTITION BY toYYYYMM(asked_at)
ORDER BY (toStartOfHour(asked_at), id)
SETTINGS merge_selector_base = 10, min_parts_to_merge_at_once = 10;

CREATE TABLE IF NOT EXISTS tool_calls ON CLUSTER 'main' AS `llmtap`.tool_calls_local
ENGINE = Distributed('main', 'llmtap', 'tool_calls_local', cityHash64(id));

CREATE VIEW IF NOT EXISTS tool_calls_final ON CLUSTER 'main' AS
SELECT * FROM tool_calls FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (3, '0003_tool_calls.sql', '0c02a719c4d94af766b16c1ad3c11d19eb1d6570d9a70d773221e49877d5f890', now64(3));

-- 0004_alerts.sql

-- One row is one alert from its start to its end, replaced whenever it changes. The id is a hash that includes started_at.
CREATE TABLE IF NOT EXISTS alerts_local ON CLUSTER 'main'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', version)
PARTITION BY toYYYYMM(started_at)
ORDER BY (started_at, alert_id);

CREATE TABLE IF NOT EXISTS alerts ON CLUSTER 'main' AS `llmtap`.alerts_local
ENGINE = Distributed('main', 'llmtap', 'alerts_local', cityHash64(alert_id));

CREATE VIEW IF NOT EXISTS alerts_final ON CLUSTER 'main' AS
SELECT * FROM alerts FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (4, '0004_alerts.sql', '15f6347e45082ecb95540f14d36f5328ce1fcc1a1f19da454568886acc3edb14', now64(3));

-- 0005_runs.sql

-- One row is one run of an agent that sends run events.
-- A row is written when the run starts and again when it ends. Either event may be missing, so neither time is in a key.
CREATE TABLE IF NOT EXISTS runs_local ON CLUSTER 'main'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seq)
ORDER BY id;

CREATE TABLE IF NOT EXISTS runs ON CLUSTER 'main' AS `llmtap`.runs_local
ENGINE = Distributed('main', 'llmtap', 'runs_local', cityHash64(id));

CREATE VIEW IF NOT EXISTS runs_final ON CLUSTER 'main' AS
SELECT * FROM runs FINAL;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (5, '0005_runs.sql', '95832e294f176e084dc9155f2e11333383a730dcbe40f4b70440ffeb3dcd2ead', now64(3));

-- 0006_messages.sql

-- One row of messages is one part of a body, stored once however often it is sent: a message, the rest of a request, or a
-- response. Parts still in use are written again from time to time, with the same bytes, which renews their TTL. The id
-- begins with the start time of the conversation, so that similar parts and parts that are read together are stored next to
-- each other; in large blocks this halves the storage compared to ids ordered by hash. The index starts words after the
-- escape sequences of JSON.
CREATE TABLE IF NOT EXISTS messages_local ON CLUSTER 'main'
(
    id      String COMMENT 'hex: 12 digits for the millisecond in which the conversation began, 0 for shared parts, then the beginning of the SHA-256 of the captured bytes' CODEC(ZSTD(3)),
    kind    LowCardinality(String) COMMENT 'message, parameters (a request without its messages), answer',
    seen_at DateTime('UTC') COMMENT 'stream time; version of the row' CODEC(Delta(4), ZSTD(1)),
    bytes   UInt32 COMMENT 'size as captured' CODEC(T64, ZSTD(1)),
    body    String COMMENT 'redacted' CODEC(ZSTD(2)) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 4194304),
    INDEX seen_at_index seen_at TYPE minmax GRANULARITY 1,
    INDEX body_index replaceAll(replaceAll(lower(body), '\\n', ' '), '\\t', ' ') TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 2
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seen_at)
ORDER BY id
SETTINGS index_granularity_bytes = 1048576, merge_selector_base = 16, min_parts_to_merge_at_once = 16;

CREATE TABLE IF NOT EXISTS messages ON CLUSTER 'main' AS `llmtap`.messages_local
ENGINE = Distributed('main', 'llmtap', 'messages_local', cityHash64(substring(id, 1, 12)));

CREATE VIEW IF NOT EXISTS messages_final ON CLUSTER 'main' AS
SELECT * FROM messages FINAL;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (6, '0006_messages.sql', 'b9a3e110631600ea3f7f943ab5ef599c3e0147b22cf3534881fa0a18f076b88a', now64(3));

-- 0007_history.sql

-- One row is one message of a conversation. Positions count from the first message that is not a leading system message.
-- A branch begins where the history of an exchange differs from all known branches; earlier positions are in its parent.
-- Searches look up hundreds of messages at once, so the index must be wrong for few of them.
CREATE TABLE IF NOT EXISTS history_local ON CLUSTER 'main'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seq)
ORDER BY (conversation_id, branch, position)
SETTINGS index_granularity = 1024, merge_selector_base = 10, min_parts_to_merge_at_once = 10;

CREATE TABLE IF NOT EXISTS history ON CLUSTER 'main' AS `llmtap`.history_local
ENGINE = Distributed('main', 'llmtap', 'history_local', cityHash64(conversation_id));

CREATE VIEW IF NOT EXISTS history_final ON CLUSTER 'main' AS
SELECT * FROM history FINAL;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (7, '0007_history.sql', '9ccb5b46e77d21aeaf4fd1c10e90b7f300f3de8366a67ec2ca093adac7529d93', now64(3));

-- 0008_alert_actions.sql

-- One row is one action of a person on alerts: an acknowledgement, a silence or its end, also if it was refused.
CREATE TABLE IF NOT EXISTS alert_actions_local ON CLUSTER 'main'
(
    id         String CODEC(ZSTD(1)),
    at         DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    action     LowCardinality(String) COMMENT 'acknowledge, unacknowledge, silence, change_silence, unsilence, show_query',
    refused    Bool COMMENT 'it was not done; the comment says why',
    name       LowCardinality(String) COMMENT 'rule of the group; empty if the action is on no group',
    service    LowCardinality(String) COMMENT 'of the group or of the matchers; empty if it is not one service',
    group_key  String COMMENT 'rule and labels of the group; empty if the action is on no group' CODEC(ZSTD(1)),
    incident   Nullable(DateTime64(9, 'UTC')) COMMENT 'start of the acknowledged incident' CODEC(Delta(8), ZSTD(1)),
    silence_id String CODEC(ZSTD(1)),
    matchers   String COMMENT 'of the silence' CODEC(ZSTD(1)),
    ends_at    Nullable(DateTime64(9, 'UTC')) COMMENT 'end of the silence' CODEC(Delta(8), ZSTD(1)),
    actor      String COMMENT 'a Slack user id, or the author that a command states' CODEC(ZSTD(1)),
    actor_name String CODEC(ZSTD(1)),
    via        LowCardinality(String) COMMENT 'slack, api',
    comment    String COMMENT 'of the silence, or the reason of a refusal' CODEC(ZSTD(3))
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}')
ORDER BY (at, id);

CREATE TABLE IF NOT EXISTS alert_actions ON CLUSTER 'main' AS `llmtap`.alert_actions_local
ENGINE = Distributed('main', 'llmtap', 'alert_actions_local', cityHash64(id));

CREATE VIEW IF NOT EXISTS alert_actions_final ON CLUSTER 'main' AS
SELECT * FROM alert_actions FINAL;

ALTER TABLE alerts_local ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS silence_id String COMMENT 'the active silence, or the one at the end; empty if there is none' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS silenced_by LowCardinality(String) COMMENT 'author of the silence',
    ADD COLUMN IF NOT EXISTS inhibited_by String COMMENT 'alert_id of the alert that hides this one' CODEC(ZSTD(1));

ALTER TABLE alerts ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS silence_id String COMMENT 'the active silence, or the one at the end; empty if there is none' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS silenced_by LowCardinality(String) COMMENT 'author of the silence',
    ADD COLUMN IF NOT EXISTS inhibited_by String COMMENT 'alert_id of the alert that hides this one' CODEC(ZSTD(1));

CREATE OR REPLACE VIEW alerts_final ON CLUSTER 'main' AS
SELECT * FROM alerts FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (8, '0008_alert_actions.sql', '1a5d62528dd60c016aceac75399a99e911f94014f10a77504cb9ac46249a2333', now64(3));

-- 0009_stored_at.sql

-- The retention of findings and tool calls starts when they are stored: those of imported traffic may be years old.
ALTER TABLE findings_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS stored_at DateTime('UTC') DEFAULT toDateTime(first_seen, 'UTC') COMMENT 'stream time of this version' CODEC(Delta(4), ZSTD(1));

ALTER TABLE findings ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS stored_at DateTime('UTC') DEFAULT toDateTime(first_seen, 'UTC') COMMENT 'stream time of this version' CODEC(Delta(4), ZSTD(1));

CREATE OR REPLACE VIEW findings_final ON CLUSTER 'main' AS
SELECT * FROM findings FINAL;

ALTER TABLE tool_calls_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS stored_at DateTime('UTC') DEFAULT toDateTime(asked_at, 'UTC') COMMENT 'stream time of this version' CODEC(Delta(4), ZSTD(1));

ALTER TABLE tool_calls ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS stored_at DateTime('UTC') DEFAULT toDateTime(asked_at, 'UTC') COMMENT 'stream time of this version' CODEC(Delta(4), ZSTD(1));

CREATE OR REPLACE VIEW tool_calls_final ON CLUSTER 'main' AS
SELECT * FROM tool_calls FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (9, '0009_stored_at.sql', '0d139f25f41aa0099193ac6c6f2dc85135f00f75daf8eb7fd2aa368767649492', now64(3));

-- 0010_code.sql

-- Where in the agent's own code a call is made: core/agent.py:145 Agent.run, '' if the hook does not know it.
ALTER TABLE exchanges_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS code LowCardinality(String) COMMENT 'where in the code of the agent the call was made: file:line function';

ALTER TABLE exchanges ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS code LowCardinality(String) COMMENT 'where in the code of the agent the call was made: file:line function';

CREATE OR REPLACE VIEW exchanges_final ON CLUSTER 'main' AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

ALTER TABLE findings_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS code LowCardinality(String) COMMENT 'where in the code of the agent exchange_id was made: file:line function';

ALTER TABLE findings ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS code LowCardinality(String) COMMENT 'where in the code of the agent exchange_id was made: file:line function';

ALTER TABLE findings_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS answer_code LowCardinality(String) COMMENT 'the same of the call whose answer was not kept as it was';

ALTER TABLE findings ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS answer_code LowCardinality(String) COMMENT 'the same of the call whose answer was not kept as it was';

CREATE OR REPLACE VIEW findings_final ON CLUSTER 'main' AS
SELECT * FROM findings FINAL;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (10, '0010_code.sql', 'ad2ef21b2e78a3a2ae5259300e70b55c35a34ed6542f394184504273bbe860b1', now64(3));

-- 0011_problems.sql

-- An alert names its problem, so that links to it lead there after it is over.
ALTER TABLE alerts_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS problem String COMMENT 'id of the problem that the alert is about; empty if it is about none' CODEC(ZSTD(1));

ALTER TABLE alerts ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS problem String COMMENT 'id of the problem that the alert is about; empty if it is about none' CODEC(ZSTD(1));

CREATE OR REPLACE VIEW alerts_final ON CLUSTER 'main' AS
SELECT * FROM alerts FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (11, '0011_problems.sql', 'e45efa00d4bc7ffd29527e4418dfa0fdcc4db21ecf624dfe580018f6a2a40885', now64(3));

-- 0012_clean_calls.sql

-- How many calls the last clean version made: two calls without a defect prove nothing.
ALTER TABLE findings_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS clean_calls UInt32 COMMENT 'a lower bound of the calls of last_clean_version that were accepted before; 0 if it is unknown' CODEC(T64, ZSTD(1));

ALTER TABLE findings ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS clean_calls UInt32 COMMENT 'a lower bound of the calls of last_clean_version that were accepted before; 0 if it is unknown' CODEC(T64, ZSTD(1));

CREATE OR REPLACE VIEW findings_final ON CLUSTER 'main' AS
SELECT * FROM findings FINAL;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (12, '0012_clean_calls.sql', '01eda275c1b09e862f94245988678c85b1fc32a180d67a6a897dd64f98816d38', now64(3));

-- 0013_reply_error.sql

-- Whether the reply to a tool call reports an error, by the protocol or by its text.
ALTER TABLE tool_calls_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS reply_error LowCardinality(String) COMMENT 'certain or likely if the reply reports an error, else empty';

ALTER TABLE tool_calls ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS reply_error LowCardinality(String) COMMENT 'certain or likely if the reply reports an error, else empty';

CREATE OR REPLACE VIEW tool_calls_final ON CLUSTER 'main' AS
SELECT * FROM tool_calls FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (13, '0013_reply_error.sql', '45b9bfbf6c72c9ca884d367577ded593b8e6f42218edc0637f6be4e7ad72c233', now64(3));

-- 0014_prompt_cache.sql

-- What became of the provider's prompt cache in a call.
ALTER TABLE exchanges_local ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS cache_written_tokens Nullable(Int64) COMMENT 'input tokens written to the prompt cache; NULL if the answer does not say what was read from it' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_hour_tokens Nullable(Int64) COMMENT 'of cache_written_tokens, those held for an hour' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_reusable_tokens Nullable(Int64) COMMENT 'input tokens that the provider could have read from its cache' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_missed_tokens Nullable(Int64) COMMENT 'of cache_reusable_tokens, those that it did not read' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_break LowCardinality(String) COMMENT 'why tokens were missed, such as system_changed; empty if none were',
    ADD COLUMN IF NOT EXISTS cache_element String COMMENT 'what broke the prefix, such as tools[3], system or messages[4]' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_detail String COMMENT 'what changed, as far as it is known, such as time or the name of a tool' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_confidence LowCardinality(String) COMMENT 'certain or likely; empty if no tokens were missed';

ALTER TABLE exchanges ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS cache_written_tokens Nullable(Int64) COMMENT 'input tokens written to the prompt cache; NULL if the answer does not say what was read from it' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_hour_tokens Nullable(Int64) COMMENT 'of cache_written_tokens, those held for an hour' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_reusable_tokens Nullable(Int64) COMMENT 'input tokens that the provider could have read from its cache' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_missed_tokens Nullable(Int64) COMMENT 'of cache_reusable_tokens, those that it did not read' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_break LowCardinality(String) COMMENT 'why tokens were missed, such as system_changed; empty if none were',
    ADD COLUMN IF NOT EXISTS cache_element String COMMENT 'what broke the prefix, such as tools[3], system or messages[4]' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_detail String COMMENT 'what changed, as far as it is known, such as time or the name of a tool' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_confidence LowCardinality(String) COMMENT 'certain or likely; empty if no tokens were missed';

-- How an answer ended.
ALTER TABLE exchanges_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS ended LowCardinality(String) COMMENT 'how the answer of a call that did not fail ended: normal, or limit, empty, refused, filtered; empty if it is not known';

ALTER TABLE exchanges ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS ended LowCardinality(String) COMMENT 'how the answer of a call that did not fail ended: normal, or limit, empty, refused, filtered; empty if it is not known';

CREATE OR REPLACE VIEW exchanges_final ON CLUSTER 'main' AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (14, '0014_prompt_cache.sql', 'b4946323f07ab947c286b6d3c787d8e4caf18acd91f1a315bdb79640c4861c17', now64(3));

-- 0015_trace.sql

-- Which trace and span of the agent's own tracing a call belongs to, so that calls of nested agents can be shown as one picture.
ALTER TABLE exchanges_local ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS trace_id String COMMENT 'trace in which the call was made, 32 hex digits; empty if the agent sends no traceparent' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS parent_span_id String COMMENT 'span in which the call was made, 16 hex digits' CODEC(ZSTD(1));

ALTER TABLE exchanges ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS trace_id String COMMENT 'trace in which the call was made, 32 hex digits; empty if the agent sends no traceparent' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS parent_span_id String COMMENT 'span in which the call was made, 16 hex digits' CODEC(ZSTD(1));

CREATE OR REPLACE VIEW exchanges_final ON CLUSTER 'main' AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (15, '0015_trace.sql', 'e894c0276f754789760d1ddd6f90b336203615fc7322b4b3499e6ccfaf0e55cc', now64(3));

-- 0016_audit.sql

-- One row is what somebody did: read texts, ran SQL, exported, erased, or changed a silence, a problem, a token or the configuration.
CREATE TABLE IF NOT EXISTS audit_local ON CLUSTER 'main'
(
    id       String CODEC(ZSTD(1)),
    at       DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    person   String COMMENT 'name of the session, of the token, or of the user of the operating system; anyone if that is not known' CODEC(ZSTD(1)),
    verified Bool COMMENT 'the person has logged in, or sent a token of their own; otherwise the name is what the client says',
    subject  String COMMENT 'id of the person at the provider of OpenID Connect, or of the token' CODEC(ZSTD(1)),
    role     LowCardinality(String) COMMENT 'viewer, responder, admin; public for a log-in',
    action   LowCardinality(String) COMMENT 'read_texts, run_sql, export, read_audit, change_alert, change_silence, change_problem, change_view, change_token, log_in, log_out, erase, configure',
    target   String COMMENT 'id of a conversation, call, alert, silence, problem, token or user label' CODEC(ZSTD(1)),
    detail   String COMMENT 'the statement, cut at 4 KiB, or what was done' CODEC(ZSTD(3)),
    route    LowCardinality(String) COMMENT 'method and pattern of the path; the command if it was none',
    via      LowCardinality(String) COMMENT 'pages, api, mcp, command, collector',
    address  String COMMENT 'host of the client, and for whom it says that it asks' CODEC(ZSTD(1)),
    outcome  LowCardinality(String) COMMENT 'done, refused, failed, started',
    status   UInt16 COMMENT 'of HTTP; 0 if it was none'
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}')
ORDER BY (at, id);

CREATE TABLE IF NOT EXISTS audit ON CLUSTER 'main' AS `llmtap`.audit_local
ENGINE = Distributed('main', 'llmtap', 'audit_local', cityHash64(id));

CREATE VIEW IF NOT EXISTS audit_final ON CLUSTER 'main' AS
SELECT * FROM audit FINAL;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (16, '0016_audit.sql', 'b16c45e8262be1fcec4d0d9c56f1bec3c72dfc0f8ea3d32205ff5e7ce91a4d68', now64(3));

-- 0017_sampling.sql

-- Texts are stored of a share of the conversations of a service, or up to a quota. Rows of calls are always stored, so counts are exact.
ALTER TABLE exchanges_local ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS texts_dropped LowCardinality(String) COMMENT 'why the texts of the call were not stored with it: sampled, quota; a later call of the conversation may have stored them',
    ADD COLUMN IF NOT EXISTS texts_share Float32 DEFAULT 1 COMMENT 'share of the conversations of the service whose texts are stored';

ALTER TABLE exchanges ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS texts_dropped LowCardinality(String) COMMENT 'why the texts of the call were not stored with it: sampled, quota; a later call of the conversation may have stored them',
    ADD COLUMN IF NOT EXISTS texts_share Float32 DEFAULT 1 COMMENT 'share of the conversations of the service whose texts are stored';

CREATE OR REPLACE VIEW exchanges_final ON CLUSTER 'main' AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (17, '0017_sampling.sql', '4ac9df4b593f630b62910ce1417ba6d70873f731c2c3cbb756f3a16ca92ece9b', now64(3));

-- 0018_word_index.sql

-- The index of words without replacing escape sequences first, which takes a third of its time. A word after \n or \t is one with that letter
-- before it, so queries search for these, too.
ALTER TABLE messages_local ON CLUSTER 'main' DROP INDEX IF EXISTS body_index;

ALTER TABLE messages_local ON CLUSTER 'main' ADD INDEX IF NOT EXISTS word_index lower(body) TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 2;

ALTER TABLE messages_local ON CLUSTER 'main' MATERIALIZE INDEX IF EXISTS word_index;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (18, '0018_word_index.sql', '5d1074b85c45c04b9646cf06b696f8fd91480d254f91137d0860728c9ad4208d', now64(3));

