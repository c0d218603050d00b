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

-- One row is one LLM call: its request and its answer, or the knowledge that none came.
-- A row is written again when the call is read again from the stream, or when its answer comes after the time-out; the
-- highest seq wins. Service, the day it started and its id are the same each time, so the sort key holds only those.
-- Within a day the ids are in order of time (UUIDv7), so the minmax index on started_at reads hours, not days.
CREATE TABLE IF NOT EXISTS exchanges_local ON CLUSTER 'main'
(
    exchange_id         String CODEC(ZSTD(1)),
    seq                 UInt64 COMMENT 'stream sequence of the completing event; the version of the row' CODEC(Delta(8), ZSTD(1)),
    service             LowCardinality(String),
    service_version     LowCardinality(String),
    environment         LowCardinality(String),
    agent               LowCardinality(String),
    stage               LowCardinality(String) COMMENT 'the agent when no stage was set',
    conversation_id     String CODEC(ZSTD(1)),
    run_id              String CODEC(ZSTD(1)),
    user                String CODEC(ZSTD(1)),
    started_at          DateTime64(9, 'UTC') COMMENT 'when the request was sent, by the clock of the agent' CODEC(Delta(8), ZSTD(1)),
    stored_at           DateTime64(9, 'UTC') COMMENT 'when the stream stored the completing event' CODEC(Delta(8), ZSTD(1)),
    inferred            Bool COMMENT 'conversation_id was inferred from answers',
    operation           LowCardinality(String),
    provider            LowCardinality(String),
    server              LowCardinality(String),
    path                String CODEC(ZSTD(1)),
    dialect             LowCardinality(String),
    variant             LowCardinality(String),
    model               LowCardinality(String),
    response_model      LowCardinality(String),
    status              UInt16 COMMENT 'HTTP status; 0 when no answer came',
    failed              Bool COMMENT 'status >= 400, an error inside a 200, or no answer',
    error_type          LowCardinality(String),
    cause               LowCardinality(String) COMMENT 'why it failed; empty on success',
    cause_known         LowCardinality(String) COMMENT 'stated, inferred, both, conflict, none',
    cause_class         LowCardinality(String),
    root_cause          LowCardinality(String) COMMENT 'what the agent did that made it so',
    error_text          String COMMENT 'of the provider, redacted' CODEC(ZSTD(3)),
    error_cluster       String CODEC(ZSTD(1)),
    input_tokens        Int64 CODEC(T64, ZSTD(1)),
    output_tokens       Int64 CODEC(T64, ZSTD(1)),
    cached_tokens       Int64 CODEC(T64, ZSTD(1)),
    duration            Float64 COMMENT 'seconds' CODEC(ZSTD(1)),
    first_byte          Float64 COMMENT 'seconds' CODEC(ZSTD(1)),
    finish_reason       LowCardinality(String),
    stream              Bool,
    request_bytes       UInt64 CODEC(T64, ZSTD(1)),
    response_bytes      UInt64 CODEC(T64, ZSTD(1)),
    messages            UInt32 COMMENT 'in the request' CODEC(T64, ZSTD(1)),
    tool_calls          UInt32 COMMENT 'in the answer' CODEC(T64, ZSTD(1)),
    findings            UInt32 COMMENT 'violations seen in the request, old ones included' CODEC(T64, ZSTD(1)),
    rejects             UInt32 COMMENT 'of them with predicted reject' CODEC(T64, ZSTD(1)),
    retry               UInt16 COMMENT 'attempt number of the SDK, 0 first',
    instance            String CODEC(ZSTD(1)),
    instance_seq        UInt64 CODEC(Delta(8), ZSTD(1)),
    origin              LowCardinality(String),
    capture             LowCardinality(String),
    degraded            Bool COMMENT 'what is absent is no evidence',
    provider_request_id String CODEC(ZSTD(1)),
    response_id         String CODEC(ZSTD(1)),
    INDEX started_at_index started_at TYPE minmax GRANULARITY 1,
    INDEX exchange_id_index exchange_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX conversation_id_index conversation_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seq)
PARTITION BY toYYYYMM(started_at)
ORDER BY (service, toDate(started_at), exchange_id);

CREATE TABLE IF NOT EXISTS exchanges ON CLUSTER 'main' AS `llmtap`.exchanges_local
ENGINE = Distributed('main', 'llmtap', 'exchanges_local', cityHash64(exchange_id));

-- The partition never changes between two writes of a row, so each is made final on its own, in parallel.
CREATE VIEW IF NOT EXISTS exchanges_final ON CLUSTER 'main' AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (1, '0001_exchanges.sql', 'f760ef6f4c738ea4b6aedeb639c437fb85da9ab9fb10c04defc04f7cee2f8e4b', now64(3));

-- 0002_findings.sql

-- One row is one violation or signal in one conversation, however often the history that holds it is re-sent.
-- A row is written again, with a higher seq, when more is known: a stronger severity, a root cause. What stands in the
-- row may then differ: first_seen and exchange_id when the conversation was forgotten in between, the service when
-- another one goes on with it, the fingerprint with the root cause. Only the conversation is part of what finding_id is
-- a hash of; the sort key holds those two. No time of a finding is fixed, so there are no partitions by time: findings
-- are few (one per defect and conversation), and a row must not stand in two partitions.
CREATE TABLE IF NOT EXISTS findings_local ON CLUSTER 'main'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seq)
ORDER BY (conversation_id, finding_id);

CREATE TABLE IF NOT EXISTS findings ON CLUSTER 'main' AS `llmtap`.findings_local
ENGINE = Distributed('main', 'llmtap', 'findings_local', cityHash64(conversation_id));

CREATE VIEW IF NOT EXISTS findings_final ON CLUSTER 'main' AS
SELECT * FROM findings FINAL;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (2, '0002_findings.sql', 'f54d1ae1e516abcb46cd8e2d63ff27cbaf3fd22d041069220ecc4a2c756c019f', now64(3));

-- 0003_tool_calls.sql

-- One row is one tool call that a model made, and what became of it.
-- A row is written when the call is made (open) and again when its reply is seen or known to be missing. The exchange
-- that asked fixes the id and the time; who answers, and with which labels, is not known then.
CREATE TABLE IF NOT EXISTS tool_calls_local ON CLUSTER 'main'
(
    id              String COMMENT 'of the row: hash of the exchange that asked, the position and the call id' CODEC(ZSTD(1)),
    seq             UInt64 COMMENT 'stream sequence; the version of the row' CODEC(Delta(8), ZSTD(1)),
    service         LowCardinality(String),
    service_version LowCardinality(String),
    environment     LowCardinality(String),
    agent           LowCardinality(String),
    stage           LowCardinality(String) COMMENT 'the agent when no stage was set',
    conversation_id String CODEC(ZSTD(1)),
    run_id          String CODEC(ZSTD(1)),
    user            String CODEC(ZSTD(1)),
    exchange_id     String COMMENT 'whose answer asked for it' CODEC(ZSTD(1)),
    tool_call_id    String COMMENT 'of the provider; not unique' CODEC(ZSTD(1)),
    tool_name       LowCardinality(String),
    state           LowCardinality(String) COMMENT 'open, answered, missing',
    asked_at        DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    answered_at     Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL while open' CODEC(Delta(8), ZSTD(1)),
    answered_by     String COMMENT 'the exchange whose request held the reply' CODEC(ZSTD(1)),
    INDEX exchange_id_index exchange_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX conversation_id_index conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX tool_call_id_index tool_call_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seq)
PARTITION BY toYYYYMM(asked_at)
ORDER BY (toDate(asked_at), id);

CREATE TABLE IF NOT EXISTS tool_calls ON CLUSTER 'main' AS `llmtap`.tool_calls_local
ENGINE = Distributed('main', 'llmtap', 'tool_calls_local', cityHash64(id));

CREATE VIEW IF NOT EXISTS tool_calls_final ON CLUSTER 'main' AS
SELECT * FROM tool_calls FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (3, '0003_tool_calls.sql', '1db7e12212b96247470482343709a851b0d12e075f60ace6f356a3c48bddcb01', now64(3));

-- 0004_alerts.sql

-- One row is one alert from its start to its end, written anew as it changes; the id is a hash that holds started_at.
CREATE TABLE IF NOT EXISTS alerts_local ON CLUSTER 'main'
(
    alert_id    String CODEC(ZSTD(1)),
    version     UInt64 COMMENT 'Unix nanoseconds of the change; the version of the row' CODEC(Delta(8), ZSTD(1)),
    name        LowCardinality(String),
    severity    LowCardinality(String),
    labels      Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    state       LowCardinality(String) COMMENT 'firing, resolved',
    started_at  DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    ended_at    Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL while firing' CODEC(Delta(8), ZSTD(1)),
    value       Float64 COMMENT 'at the last evaluation',
    peak        Float64,
    failed      UInt64 COMMENT 'calls in the window, exact',
    calls       UInt64,
    shares      Map(LowCardinality(String), UInt64) COMMENT 'root cause, else cause -> failed calls' CODEC(ZSTD(1)),
    first_bad   LowCardinality(String) COMMENT 'first service version that shows it; empty when unknown',
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

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (4, '0004_alerts.sql', '37f930ddeca57d33c134fef5314dcf90e5c8cdd49444acd656d562dcd6edc4fd', now64(3));

-- 0005_whose_change.sql

-- A row of findings also says where exactly its violation was seen first, and since which version the defect is there.
-- Rows from before have none of it. A view keeps the columns it was made with, so it is made again.
ALTER TABLE findings_local ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS exchange_version LowCardinality(String) COMMENT 'service version of exchange_id; that of the row may be newer' AFTER exchange_id,
    ADD COLUMN IF NOT EXISTS exchange_instance String COMMENT 'the process that sent exchange_id' CODEC(ZSTD(1)) AFTER exchange_version,
    ADD COLUMN IF NOT EXISTS exchange_messages UInt32 COMMENT 'in the request of exchange_id: how far the conversation was' CODEC(T64, ZSTD(1)) AFTER exchange_instance,
    ADD COLUMN IF NOT EXISTS first_version LowCardinality(String) COMMENT 'service version that showed the defect first, in any conversation' AFTER fingerprint,
    ADD COLUMN IF NOT EXISTS last_clean_version LowCardinality(String) COMMENT 'the newest other version of the stage that made calls before; empty when there was none' AFTER first_version;

ALTER TABLE findings ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS exchange_version LowCardinality(String) COMMENT 'service version of exchange_id; that of the row may be newer' AFTER exchange_id,
    ADD COLUMN IF NOT EXISTS exchange_instance String COMMENT 'the process that sent exchange_id' CODEC(ZSTD(1)) AFTER exchange_version,
    ADD COLUMN IF NOT EXISTS exchange_messages UInt32 COMMENT 'in the request of exchange_id: how far the conversation was' CODEC(T64, ZSTD(1)) AFTER exchange_instance,
    ADD COLUMN IF NOT EXISTS first_version LowCardinality(String) COMMENT 'service version that showed the defect first, in any conversation' AFTER fingerprint,
    ADD COLUMN IF NOT EXISTS last_clean_version LowCardinality(String) COMMENT 'the newest other version of the stage that made calls before; empty when there was none' AFTER first_version;

CREATE OR REPLACE VIEW findings_final ON CLUSTER 'main' AS
SELECT * FROM findings FINAL;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (5, '0005_whose_change.sql', '40044872ab684dc9e328b8e24e5ed4ea8f4de31a6b224bb34efd70a155625aad', now64(3));

-- 0006_signals.sql

-- A signal is a row of findings whose rule_id is a signal's and whose severity is signal. One of them, latent_violation,
-- says who would reject what was accepted. A view keeps the columns it was made with, so it is made again.
ALTER TABLE findings_local ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS rejected_by Array(LowCardinality(String)) COMMENT 'dialect/variant of the targets that would reject what was accepted' AFTER severity;

ALTER TABLE findings ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS rejected_by Array(LowCardinality(String)) COMMENT 'dialect/variant of the targets that would reject what was accepted' AFTER severity;

CREATE OR REPLACE VIEW findings_final ON CLUSTER 'main' AS
SELECT * FROM findings FINAL;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (6, '0006_signals.sql', '60ceef3d373fae740d7fc59e39c7f14d7e9b9052ba15a3669119441ea5e3d23e', now64(3));

-- 0007_runs.sql

-- One row is one run of an agent that sends run events. Rows of tool calls say what their tools did, if the agent tells.
-- A run's row is written when it starts and again when it ends; which of its events come is not known before, so neither
-- time is in a key. A view keeps the columns it was made with, so it is made again.
CREATE TABLE IF NOT EXISTS runs_local ON CLUSTER 'main'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seq)
ORDER BY id;

CREATE TABLE IF NOT EXISTS runs ON CLUSTER 'main' AS `llmtap`.runs_local
ENGINE = Distributed('main', 'llmtap', 'runs_local', cityHash64(id));

CREATE VIEW IF NOT EXISTS runs_final ON CLUSTER 'main' AS
SELECT * FROM runs FINAL;

ALTER TABLE tool_calls_local ON CLUSTER 'main'
    MODIFY COLUMN IF EXISTS state COMMENT 'open, answered, missing, duplicate, late, rejected, abandoned, terminal',
    ADD COLUMN IF NOT EXISTS started_at Nullable(DateTime64(9, 'UTC')) COMMENT 'when the tool started; NULL when the agent does not tell' CODEC(Delta(8), ZSTD(1)),
    ADD COLUMN IF NOT EXISTS ended_at Nullable(DateTime64(9, 'UTC')) COMMENT 'when the tool ended' CODEC(Delta(8), ZSTD(1)),
    ADD COLUMN IF NOT EXISTS tool_status LowCardinality(String) COMMENT 'started, ok, error, cancelled; empty when the agent does not tell';

ALTER TABLE tool_calls ON CLUSTER 'main'
    MODIFY COLUMN IF EXISTS state COMMENT 'open, answered, missing, duplicate, late, rejected, abandoned, terminal',
    ADD COLUMN IF NOT EXISTS started_at Nullable(DateTime64(9, 'UTC')) COMMENT 'when the tool started; NULL when the agent does not tell' CODEC(Delta(8), ZSTD(1)),
    ADD COLUMN IF NOT EXISTS ended_at Nullable(DateTime64(9, 'UTC')) COMMENT 'when the tool ended' CODEC(Delta(8), ZSTD(1)),
    ADD COLUMN IF NOT EXISTS tool_status LowCardinality(String) COMMENT 'started, ok, error, cancelled; empty when the agent does not tell';

CREATE OR REPLACE VIEW tool_calls_final ON CLUSTER 'main' AS
SELECT * FROM tool_calls FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (7, '0007_runs.sql', '06051d4955946817a62758bcb06b48a26d4f084a1782efd11ca7d7a1392b88a4', now64(3));

-- 0008_messages.sql

-- One row of messages is one part of a body, stored once however often it is sent: a message, the rest of a request, an
-- answer. What is still in use is written again now and then, with the same bytes, which renews its time to live. The id
-- begins with when its conversation began, so that what is alike and what is read together lies together; in
-- large blocks it takes half of what it takes in an order by hash. Words begin after the escapes of JSON.
CREATE TABLE IF NOT EXISTS messages_local ON CLUSTER 'main'
(
    id      String COMMENT 'hex: the second in which its conversation began, 0 for what all share, and SHA-256/128 of the captured bytes' CODEC(ZSTD(3)),
    kind    LowCardinality(String) COMMENT 'message, parameters (a request without its messages), answer',
    seen_at DateTime('UTC') COMMENT 'stream time; the version of the row' CODEC(Delta(4), ZSTD(1)),
    bytes   UInt32 COMMENT 'as captured' CODEC(T64, ZSTD(1)),
    body    String COMMENT 'redacted' CODEC(ZSTD(3)) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 4194304),
    INDEX seen_at_index seen_at TYPE minmax GRANULARITY 1,
    INDEX body_index replaceAll(replaceAll(lower(body), '\\n', ' '), '\\t', ' ') TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 2
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seen_at)
ORDER BY id
SETTINGS index_granularity_bytes = 1048576;

CREATE TABLE IF NOT EXISTS messages ON CLUSTER 'main' AS `llmtap`.messages_local
ENGINE = Distributed('main', 'llmtap', 'messages_local', cityHash64(substring(id, 1, 8)));

CREATE VIEW IF NOT EXISTS messages_final ON CLUSTER 'main' AS
SELECT * FROM messages FINAL;

-- One row of history is a message of a conversation. Positions count from the first message that is not a leading system
-- message. A branch begins where an exchange's history leaves all that are known; the positions before are its parent's.
CREATE TABLE IF NOT EXISTS history_local ON CLUSTER 'main'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}', seq)
ORDER BY (conversation_id, branch, position);

CREATE TABLE IF NOT EXISTS history ON CLUSTER 'main' AS `llmtap`.history_local
ENGINE = Distributed('main', 'llmtap', 'history_local', cityHash64(conversation_id));

CREATE VIEW IF NOT EXISTS history_final ON CLUSTER 'main' AS
SELECT * FROM history FINAL;

-- A request is its leading system messages, its branch up to its number of messages, and the rest of its body; a message
-- with a cache mark is in marked. All are empty when bodies are not stored.
ALTER TABLE exchanges_local ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS branch String COMMENT 'of history' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS lead Array(String) COMMENT 'ids of the leading system messages' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS marked Map(UInt32, String) COMMENT 'ids of messages with cache marks, by position' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS parameters String COMMENT 'id of the request without its messages' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS messages_at UInt32 COMMENT 'where they stood in it, in bytes' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS answer String COMMENT 'id of the answer' CODEC(ZSTD(1));

ALTER TABLE exchanges ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS branch String COMMENT 'of history' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS lead Array(String) COMMENT 'ids of the leading system messages' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS marked Map(UInt32, String) COMMENT 'ids of messages with cache marks, by position' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS parameters String COMMENT 'id of the request without its messages' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS messages_at UInt32 COMMENT 'where they stood in it, in bytes' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS answer String COMMENT 'id of the answer' CODEC(ZSTD(1));

CREATE OR REPLACE VIEW exchanges_final ON CLUSTER 'main' AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

INSERT INTO migrations (number, name, checksum, applied_at) VALUES (8, '0008_messages.sql', '71ed85bedcb9b37b20a3ab1848671d02ef96e434aa96d49ac449d1b60edc8a27', now64(3));

