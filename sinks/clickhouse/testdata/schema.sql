CREATE TABLE alert_actions
(
    `id` String CODEC(ZSTD(1)),
    `at` DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    `action` LowCardinality(String) COMMENT 'acknowledge, unacknowledge, silence, change_silence, unsilence, show_query',
    `refused` Bool COMMENT 'it was not done; the comment says why',
    `name` LowCardinality(String) COMMENT 'rule of the group; empty if the action is on no group',
    `service` LowCardinality(String) COMMENT 'of the group or of the matchers; empty if it is not one service',
    `group_key` String COMMENT 'rule and labels of the group; empty if the action is on no group' CODEC(ZSTD(1)),
    `incident` Nullable(DateTime64(9, 'UTC')) COMMENT 'start of the acknowledged incident' CODEC(Delta(8), ZSTD(1)),
    `silence_id` String CODEC(ZSTD(1)),
    `matchers` String COMMENT 'of the silence' CODEC(ZSTD(1)),
    `ends_at` Nullable(DateTime64(9, 'UTC')) COMMENT 'end of the silence' CODEC(Delta(8), ZSTD(1)),
    `actor` String COMMENT 'a Slack user id, or the author that a command states' CODEC(ZSTD(1)),
    `actor_name` String CODEC(ZSTD(1)),
    `via` LowCardinality(String) COMMENT 'slack, api',
    `comment` String COMMENT 'of the silence, or the reason of a refusal' CODEC(ZSTD(3)))
ENGINE = ReplacingMergeTree
ORDER BY (at, id)
SETTINGS index_granularity = 8192;

CREATE VIEW alert_actions_final
(
    `id` String,
    `at` DateTime64(9, 'UTC'),
    `action` LowCardinality(String),
    `refused` Bool,
    `name` LowCardinality(String),
    `service` LowCardinality(String),
    `group_key` String,
    `incident` Nullable(DateTime64(9, 'UTC')),
    `silence_id` String,
    `matchers` String,
    `ends_at` Nullable(DateTime64(9, 'UTC')),
    `actor` String,
    `actor_name` String,
    `via` LowCardinality(String),
    `comment` String)
AS SELECT * FROM alert_actions FINAL;

CREATE TABLE alerts
(
    `alert_id` String CODEC(ZSTD(1)),
    `version` UInt64 COMMENT 'Unix nanoseconds of the change; version of the row' CODEC(Delta(8), ZSTD(1)),
    `name` LowCardinality(String),
    `severity` LowCardinality(String),
    `labels` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `state` LowCardinality(String) COMMENT 'firing, resolved',
    `started_at` DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    `ended_at` Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL while firing' CODEC(Delta(8), ZSTD(1)),
    `value` Float64 COMMENT 'at the last evaluation',
    `peak` Float64,
    `failed` UInt64 COMMENT 'failed calls in the window, exact',
    `calls` UInt64,
    `shares` Map(LowCardinality(String), UInt64) COMMENT 'failed calls by root cause, or by cause if there is none' CODEC(ZSTD(1)),
    `first_bad` LowCardinality(String) COMMENT 'first service version that shows the failure; empty if unknown',
    `last_clean` LowCardinality(String),
    `example` String COMMENT 'an exchange_id' CODEC(ZSTD(1)),
    `summary` String CODEC(ZSTD(3)),
    `notified_at` Nullable(DateTime64(9, 'UTC')) CODEC(Delta(8), ZSTD(1)),
    `silence_id` String COMMENT 'the active silence, or the one at the end; empty if there is none' CODEC(ZSTD(1)),
    `silenced_by` LowCardinality(String) COMMENT 'author of the silence',
    `inhibited_by` String COMMENT 'alert_id of the alert that hides this one' CODEC(ZSTD(1)),
    `problem` String COMMENT 'id of the problem that the alert is about; empty if it is about none' CODEC(ZSTD(1)))
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(started_at)
ORDER BY (started_at, alert_id)
SETTINGS index_granularity = 8192;

CREATE VIEW alerts_final
(
    `alert_id` String,
    `version` UInt64,
    `name` LowCardinality(String),
    `severity` LowCardinality(String),
    `labels` Map(LowCardinality(String), String),
    `state` LowCardinality(String),
    `started_at` DateTime64(9, 'UTC'),
    `ended_at` Nullable(DateTime64(9, 'UTC')),
    `value` Float64,
    `peak` Float64,
    `failed` UInt64,
    `calls` UInt64,
    `shares` Map(LowCardinality(String), UInt64),
    `first_bad` LowCardinality(String),
    `last_clean` LowCardinality(String),
    `example` String,
    `summary` String,
    `notified_at` Nullable(DateTime64(9, 'UTC')),
    `silence_id` String,
    `silenced_by` LowCardinality(String),
    `inhibited_by` String,
    `problem` String)
AS SELECT * FROM alerts FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;

CREATE TABLE audit
(
    `id` String CODEC(ZSTD(1)),
    `at` DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    `person` String COMMENT 'name of the session, of the token, or of the user of the operating system; anyone if that is not known' CODEC(ZSTD(1)),
    `verified` Bool COMMENT 'the person has logged in, or sent a token of their own; otherwise the name is what the client says',
    `subject` String COMMENT 'id of the person at the provider of OpenID Connect, or of the token' CODEC(ZSTD(1)),
    `role` LowCardinality(String) COMMENT 'viewer, responder, admin; public for a log-in',
    `action` LowCardinality(String) COMMENT 'read_texts, run_sql, export, read_audit, change_alert, change_silence, change_problem, change_view, change_token, log_in, log_out, erase, configure',
    `target` String COMMENT 'id of a conversation, call, alert, silence, problem, token or user label' CODEC(ZSTD(1)),
    `detail` String COMMENT 'the statement, cut at 4 KiB, or what was done' CODEC(ZSTD(3)),
    `route` LowCardinality(String) COMMENT 'method and pattern of the path; the command if it was none',
    `via` LowCardinality(String) COMMENT 'pages, api, mcp, command, collector',
    `address` String COMMENT 'host of the client, and for whom it says that it asks' CODEC(ZSTD(1)),
    `outcome` LowCardinality(String) COMMENT 'done, refused, failed, started',
    `status` UInt16 COMMENT 'of HTTP; 0 if it was none')
ENGINE = ReplacingMergeTree
ORDER BY (at, id)
SETTINGS index_granularity = 8192;

CREATE VIEW audit_final
(
    `id` String,
    `at` DateTime64(9, 'UTC'),
    `person` String,
    `verified` Bool,
    `subject` String,
    `role` LowCardinality(String),
    `action` LowCardinality(String),
    `target` String,
    `detail` String,
    `route` LowCardinality(String),
    `via` LowCardinality(String),
    `address` String,
    `outcome` LowCardinality(String),
    `status` UInt16)
AS SELECT * FROM audit FINAL;

CREATE TABLE exchanges
(
    `exchange_id` String CODEC(ZSTD(1)),
    `seq` UInt64 COMMENT 'stream sequence of the completing event; version of the row' CODEC(Delta(8), ZSTD(1)),
    `service` LowCardinality(String),
    `service_version` LowCardinality(String),
    `environment` LowCardinality(String),
    `agent` LowCardinality(String),
    `stage` LowCardinality(String) COMMENT 'the agent if no stage is set',
    `conversation_id` String CODEC(ZSTD(1)),
    `run_id` String CODEC(ZSTD(1)),
    `user` String CODEC(ZSTD(1)),
    `attributes` Map(LowCardinality(String), String) COMMENT 'attributes set by the agent, such as tenant; credentials and mail addresses are masked' CODEC(ZSTD(1)),
    `started_at` DateTime64(9, 'UTC') COMMENT 'when the request was sent, by the clock of the agent' CODEC(Delta(8), ZSTD(1)),
    `stored_at` DateTime64(9, 'UTC') COMMENT 'when the stream stored the completing event' CODEC(Delta(8), ZSTD(1)),
    `inferred` Bool COMMENT 'conversation_id was inferred from responses',
    `operation` LowCardinality(String),
    `provider` LowCardinality(String),
    `server` LowCardinality(String),
    `path` String CODEC(ZSTD(1)),
    `dialect` LowCardinality(String),
    `variant` LowCardinality(String),
    `model` LowCardinality(String),
    `response_model` LowCardinality(String),
    `status` UInt16 COMMENT 'HTTP status; 0 if no response arrived',
    `failed` Bool COMMENT 'status >= 400, an error inside a 200, or no response',
    `error_type` LowCardinality(String),
    `cause` LowCardinality(String) COMMENT 'why the call failed; empty on success',
    `cause_known` LowCardinality(String) COMMENT 'stated, guessed, inferred, both, conflict, none',
    `cause_class` LowCardinality(String),
    `root_cause` LowCardinality(String) COMMENT 'what the agent did to cause the failure',
    `error_text` String COMMENT 'error text of the provider, redacted' CODEC(ZSTD(3)),
    `error_cluster` String CODEC(ZSTD(1)),
    `input_tokens` Nullable(Int64) COMMENT 'NULL if the response reports no usage' CODEC(T64, ZSTD(1)),
    `output_tokens` Nullable(Int64) CODEC(T64, ZSTD(1)),
    `cached_tokens` Nullable(Int64) COMMENT 'part of input_tokens' CODEC(T64, ZSTD(1)),
    `duration` Float64 COMMENT 'seconds' CODEC(ZSTD(1)),
    `first_byte` Float64 COMMENT 'seconds' CODEC(ZSTD(1)),
    `finish_reason` LowCardinality(String),
    `stream` Bool,
    `request_bytes` UInt64 CODEC(T64, ZSTD(1)),
    `response_bytes` UInt64 CODEC(T64, ZSTD(1)),
    `messages` UInt32 COMMENT 'messages in the request' CODEC(T64, ZSTD(1)),
    `tool_calls` UInt32 COMMENT 'tool calls in the response' CODEC(T64, ZSTD(1)),
    `findings` UInt32 COMMENT 'violations in the request, including earlier ones' CODEC(T64, ZSTD(1)),
    `rejects` UInt32 COMMENT 'findings with predicted = reject' CODEC(T64, ZSTD(1)),
    `retry` UInt16 COMMENT 'attempt number of the SDK; 0 for the first',
    `instance` String CODEC(ZSTD(1)),
    `instance_seq` UInt64 CODEC(Delta(8), ZSTD(1)),
    `origin` LowCardinality(String),
    `capture` LowCardinality(String),
    `sdk` LowCardinality(String) COMMENT 'hook and its version',
    `degraded` Bool COMMENT 'absent data is not evidence',
    `provider_request_id` String CODEC(ZSTD(1)),
    `response_id` String CODEC(ZSTD(1)),
    `prompt_hash` UInt64 COMMENT 'of the system prompt; 0 if there is none. In shape mode it depends on the lengths of texts only, as tools_hash does' CODEC(ZSTD(1)),
    `tools_hash` UInt64 COMMENT 'of the declarations of the tools; 0 if there are none' CODEC(ZSTD(1)),
    `tools` Array(LowCardinality(String)) COMMENT 'names of the declared tools' CODEC(ZSTD(1)),
    `settings` Map(LowCardinality(String), String) COMMENT 'parameters such as temperature: short values as JSON, long ones as a hash' CODEC(ZSTD(1)),
    `branch` String COMMENT 'branch in history' CODEC(ZSTD(1)),
    `lead` Array(String) COMMENT 'message ids of the leading system messages' CODEC(ZSTD(1)),
    `marked` Map(UInt32, String) COMMENT 'message ids of the messages with cache marks, by position' CODEC(ZSTD(1)),
    `parameters` String COMMENT 'message id of the request without its messages' CODEC(ZSTD(1)),
    `messages_at` UInt32 COMMENT 'byte offset of the messages in parameters' CODEC(T64, ZSTD(1)),
    `answer` String COMMENT 'message id of the response' CODEC(ZSTD(1)),
    `code` LowCardinality(String) COMMENT 'where in the code of the agent the call was made: file:line function',
    `cache_written_tokens` Nullable(Int64) COMMENT 'input tokens written to the prompt cache; NULL if the answer does not say what was read from it' CODEC(T64, ZSTD(1)),
    `cache_hour_tokens` Nullable(Int64) COMMENT 'of cache_written_tokens, those held for an hour' CODEC(T64, ZSTD(1)),
    `cache_reusable_tokens` Nullable(Int64) COMMENT 'input tokens that the provider could have read from its cache' CODEC(T64, ZSTD(1)),
    `cache_missed_tokens` Nullable(Int64) COMMENT 'of cache_reusable_tokens, those that it did not read' CODEC(T64, ZSTD(1)),
    `cache_break` LowCardinality(String) COMMENT 'why tokens were missed, such as system_changed; empty if none were',
    `cache_element` String COMMENT 'what broke the prefix, such as tools[3], system or messages[4]' CODEC(ZSTD(1)),
    `cache_detail` String COMMENT 'what changed, as far as it is known, such as time or the name of a tool' CODEC(ZSTD(1)),
    `cache_confidence` LowCardinality(String) COMMENT 'certain or likely; empty if no tokens were missed',
    `ended` LowCardinality(String) COMMENT 'how the answer of a call that did not fail ended: normal, or limit, empty, refused, filtered; empty if it is not known',
    `trace_id` String COMMENT 'trace in which the call was made, 32 hex digits; empty if the agent sends no traceparent' CODEC(ZSTD(1)),
    `parent_span_id` String COMMENT 'span in which the call was made, 16 hex digits' CODEC(ZSTD(1)),
    `texts_dropped` LowCardinality(String) COMMENT 'why the texts of the call were not stored with it: sampled, quota; a later call of the conversation may have stored them',
    `texts_share` Float32 DEFAULT 1 COMMENT 'share of the conversations of the service whose texts are stored',
    INDEX stored_at_index stored_at TYPE minmax GRANULARITY 1,
    INDEX exchange_id_index exchange_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX conversation_id_index conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX answer_index answer TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX user_index user TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX attribute_keys_index mapKeys(attributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX attribute_values_index mapValues(attributes) TYPE bloom_filter(0.01) GRANULARITY 1)
ENGINE = ReplacingMergeTree(seq)
PARTITION BY toYYYYMM(started_at)
ORDER BY (toStartOfHour(started_at), service, exchange_id)
SETTINGS index_granularity = 2048, max_compress_block_size = 131072, merge_selector_base = 10, min_parts_to_merge_at_once = 10;

CREATE VIEW exchanges_final
(
    `exchange_id` String,
    `seq` UInt64,
    `service` LowCardinality(String),
    `service_version` LowCardinality(String),
    `environment` LowCardinality(String),
    `agent` LowCardinality(String),
    `stage` LowCardinality(String),
    `conversation_id` String,
    `run_id` String,
    `user` String,
    `attributes` Map(LowCardinality(String), String),
    `started_at` DateTime64(9, 'UTC'),
    `stored_at` DateTime64(9, 'UTC'),
    `inferred` Bool,
    `operation` LowCardinality(String),
    `provider` LowCardinality(String),
    `server` LowCardinality(String),
    `path` String,
    `dialect` LowCardinality(String),
    `variant` LowCardinality(String),
    `model` LowCardinality(String),
    `response_model` LowCardinality(String),
    `status` UInt16,
    `failed` Bool,
    `error_type` LowCardinality(String),
    `cause` LowCardinality(String),
    `cause_known` LowCardinality(String),
    `cause_class` LowCardinality(String),
    `root_cause` LowCardinality(String),
    `error_text` String,
    `error_cluster` String,
    `input_tokens` Nullable(Int64),
    `output_tokens` Nullable(Int64),
    `cached_tokens` Nullable(Int64),
    `duration` Float64,
    `first_byte` Float64,
    `finish_reason` LowCardinality(String),
    `stream` Bool,
    `request_bytes` UInt64,
    `response_bytes` UInt64,
    `messages` UInt32,
    `tool_calls` UInt32,
    `findings` UInt32,
    `rejects` UInt32,
    `retry` UInt16,
    `instance` String,
    `instance_seq` UInt64,
    `origin` LowCardinality(String),
    `capture` LowCardinality(String),
    `sdk` LowCardinality(String),
    `degraded` Bool,
    `provider_request_id` String,
    `response_id` String,
    `prompt_hash` UInt64,
    `tools_hash` UInt64,
    `tools` Array(LowCardinality(String)),
    `settings` Map(LowCardinality(String), String),
    `branch` String,
    `lead` Array(String),
    `marked` Map(UInt32, String),
    `parameters` String,
    `messages_at` UInt32,
    `answer` String,
    `code` LowCardinality(String),
    `cache_written_tokens` Nullable(Int64),
    `cache_hour_tokens` Nullable(Int64),
    `cache_reusable_tokens` Nullable(Int64),
    `cache_missed_tokens` Nullable(Int64),
    `cache_break` LowCardinality(String),
    `cache_element` String,
    `cache_detail` String,
    `cache_confidence` LowCardinality(String),
    `ended` LowCardinality(String),
    `trace_id` String,
    `parent_span_id` String,
    `texts_dropped` LowCardinality(String),
    `texts_share` Float32)
AS SELECT * FROM exchanges FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;

CREATE TABLE findings
(
    `finding_id` String CODEC(ZSTD(1)),
    `fingerprint` String COMMENT 'identifies the defect across conversations' CODEC(ZSTD(1)),
    `first_version` LowCardinality(String) COMMENT 'first service version that showed the defect in any conversation',
    `last_clean_version` LowCardinality(String) COMMENT 'newest other version of the stage that made calls before; empty if there was none',
    `seq` UInt64 COMMENT 'stream sequence; version of the row' CODEC(Delta(8), ZSTD(1)),
    `first_seen` DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    `exchange_id` String COMMENT 'the first exchange that showed it' CODEC(ZSTD(1)),
    `exchange_version` LowCardinality(String) COMMENT 'service version of exchange_id; service_version may be newer',
    `exchange_instance` String COMMENT 'the process that sent exchange_id' CODEC(ZSTD(1)),
    `exchange_messages` UInt32 COMMENT 'messages in the request of exchange_id: the length of the conversation' CODEC(T64, ZSTD(1)),
    `service` LowCardinality(String),
    `service_version` LowCardinality(String),
    `environment` LowCardinality(String),
    `agent` LowCardinality(String),
    `stage` LowCardinality(String) COMMENT 'the agent if no stage is set',
    `conversation_id` String CODEC(ZSTD(1)),
    `run_id` String CODEC(ZSTD(1)),
    `user` String CODEC(ZSTD(1)),
    `attributes` Map(LowCardinality(String), String) COMMENT 'as in exchanges' CODEC(ZSTD(1)),
    `provider` LowCardinality(String),
    `model` LowCardinality(String),
    `dialect` LowCardinality(String),
    `variant` LowCardinality(String),
    `rule_id` LowCardinality(String),
    `detail` LowCardinality(String),
    `predicted` LowCardinality(String) COMMENT 'reject, lenient, style: the expected reaction of the target',
    `severity` LowCardinality(String) COMMENT 'the actual reaction: an accepted reject is lenient',
    `rejected_by` Array(LowCardinality(String)) COMMENT 'of latent_violation: dialect/variant of the targets that would reject the accepted request',
    `status` UInt16 COMMENT 'HTTP status of the exchange',
    `message_index` Int32 COMMENT '0-based index in messages as sent; -1 if the finding concerns no message',
    `tool_call_id` String CODEC(ZSTD(1)),
    `tool_name` LowCardinality(String),
    `summary` String CODEC(ZSTD(3)),
    `root_cause` LowCardinality(String) COMMENT 'empty if the history does not show it yet',
    `confidence` LowCardinality(String) COMMENT 'high, medium, low',
    `evidence` String COMMENT 'what the response contained and what the next request sent' CODEC(ZSTD(3)),
    `fix` String CODEC(ZSTD(3)),
    `stored_at` DateTime('UTC') DEFAULT toDateTime(first_seen, 'UTC') COMMENT 'stream time of this version' CODEC(Delta(4), ZSTD(1)),
    `code` LowCardinality(String) COMMENT 'where in the code of the agent exchange_id was made: file:line function',
    `answer_code` LowCardinality(String) COMMENT 'the same of the call whose answer was not kept as it was',
    `clean_calls` UInt32 COMMENT 'a lower bound of the calls of last_clean_version that were accepted before; 0 if it is unknown' CODEC(T64, ZSTD(1)),
    INDEX finding_id_index finding_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX fingerprint_index fingerprint TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX exchange_id_index exchange_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX tool_call_id_index tool_call_id TYPE bloom_filter(0.01) GRANULARITY 1, PROJECTION by_time (SELECT first_seen, conversation_id, finding_id
ORDER BY first_seen))
ENGINE = ReplacingMergeTree(seq)
ORDER BY (conversation_id, finding_id)
SETTINGS index_granularity = 128, min_compress_block_size = 2048, deduplicate_merge_projection_mode = 'rebuild';

CREATE VIEW findings_final
(
    `finding_id` String,
    `fingerprint` String,
    `first_version` LowCardinality(String),
    `last_clean_version` LowCardinality(String),
    `seq` UInt64,
    `first_seen` DateTime64(9, 'UTC'),
    `exchange_id` String,
    `exchange_version` LowCardinality(String),
    `exchange_instance` String,
    `exchange_messages` UInt32,
    `service` LowCardinality(String),
    `service_version` LowCardinality(String),
    `environment` LowCardinality(String),
    `agent` LowCardinality(String),
    `stage` LowCardinality(String),
    `conversation_id` String,
    `run_id` String,
    `user` String,
    `attributes` Map(LowCardinality(String), String),
    `provider` LowCardinality(String),
    `model` LowCardinality(String),
    `dialect` LowCardinality(String),
    `variant` LowCardinality(String),
    `rule_id` LowCardinality(String),
    `detail` LowCardinality(String),
    `predicted` LowCardinality(String),
    `severity` LowCardinality(String),
    `rejected_by` Array(LowCardinality(String)),
    `status` UInt16,
    `message_index` Int32,
    `tool_call_id` String,
    `tool_name` LowCardinality(String),
    `summary` String,
    `root_cause` LowCardinality(String),
    `confidence` LowCardinality(String),
    `evidence` String,
    `fix` String,
    `stored_at` DateTime('UTC'),
    `code` LowCardinality(String),
    `answer_code` LowCardinality(String),
    `clean_calls` UInt32)
AS SELECT * FROM findings FINAL;

CREATE TABLE history
(
    `conversation_id` String CODEC(ZSTD(1)),
    `branch` String COMMENT 'the exchange that began the branch' CODEC(ZSTD(1)),
    `position` UInt32 CODEC(Delta(4), ZSTD(1)),
    `message_id` String COMMENT 'id in messages; empty if the message was too large to be stored' CODEC(ZSTD(1)),
    `role` LowCardinality(String) COMMENT 'as sent',
    `parent` String COMMENT 'branch that contains the first positions of this one; empty if there is none' CODEC(ZSTD(1)),
    `shared` UInt32 COMMENT 'number of positions in the parent' CODEC(T64, ZSTD(1)),
    `service` LowCardinality(String),
    `exchange_id` String COMMENT 'the first exchange that sent the message at this position' CODEC(ZSTD(1)),
    `seq` UInt64 COMMENT 'stream sequence; version of the row' CODEC(Delta(8), ZSTD(1)),
    `seen_at` DateTime64(9, 'UTC') COMMENT 'stream time' CODEC(Delta(8), ZSTD(1)),
    INDEX message_id_index message_id TYPE bloom_filter(0.0001) GRANULARITY 1,
    INDEX seen_at_index seen_at TYPE minmax GRANULARITY 1)
ENGINE = ReplacingMergeTree(seq)
ORDER BY (conversation_id, branch, position)
SETTINGS index_granularity = 1024, merge_selector_base = 10, min_parts_to_merge_at_once = 10;

CREATE VIEW history_final
(
    `conversation_id` String,
    `branch` String,
    `position` UInt32,
    `message_id` String,
    `role` LowCardinality(String),
    `parent` String,
    `shared` UInt32,
    `service` LowCardinality(String),
    `exchange_id` String,
    `seq` UInt64,
    `seen_at` DateTime64(9, 'UTC'))
AS SELECT * FROM history FINAL;

CREATE TABLE messages
(
    `id` String COMMENT 'hex: 12 digits for the millisecond in which the conversation began, 0 for shared parts, then the beginning of the SHA-256 of the captured bytes' CODEC(ZSTD(3)),
    `kind` LowCardinality(String) COMMENT 'message, parameters (a request without its messages), answer',
    `seen_at` DateTime('UTC') COMMENT 'stream time; version of the row' CODEC(Delta(4), ZSTD(1)),
    `bytes` UInt32 COMMENT 'size as captured' CODEC(T64, ZSTD(1)),
    `body` String COMMENT 'redacted' CODEC(Default)
SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 4194304),
    INDEX seen_at_index seen_at TYPE minmax GRANULARITY 1,
    INDEX word_index lower(body) TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 2)
ENGINE = ReplacingMergeTree(seen_at)
ORDER BY id
SETTINGS index_granularity_bytes = 1048576, merge_selector_base = 16, min_parts_to_merge_at_once = 16, index_granularity = 8192, default_compression_codec = '';

CREATE VIEW messages_final
(
    `id` String,
    `kind` LowCardinality(String),
    `seen_at` DateTime('UTC'),
    `bytes` UInt32,
    `body` String)
AS SELECT * FROM messages FINAL;

CREATE TABLE migrations
(
    `number` UInt32,
    `name` String,
    `checksum` String COMMENT 'SHA-256 of the file',
    `applied_at` DateTime64(3, 'UTC'))
ENGINE = ReplacingMergeTree
ORDER BY (number, checksum)
SETTINGS index_granularity = 8192;

CREATE TABLE runs
(
    `id` String COMMENT 'hash of service and run' CODEC(ZSTD(1)),
    `seq` UInt64 COMMENT 'stream sequence; version of the row' CODEC(Delta(8), ZSTD(1)),
    `service` LowCardinality(String),
    `service_version` LowCardinality(String),
    `environment` LowCardinality(String),
    `agent` LowCardinality(String),
    `stage` LowCardinality(String) COMMENT 'the agent if no stage is set',
    `conversation_id` String CODEC(ZSTD(1)),
    `run_id` String CODEC(ZSTD(1)),
    `user` String CODEC(ZSTD(1)),
    `status` LowCardinality(String) COMMENT 'started, ok, error, cancelled',
    `seen_at` DateTime64(9, 'UTC') COMMENT 'stream time of this version' CODEC(Delta(8), ZSTD(1)),
    `started_at` Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL if unknown' CODEC(Delta(8), ZSTD(1)),
    `ended_at` Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL while the run is in progress' CODEC(Delta(8), ZSTD(1)),
    `calls` UInt32 COMMENT 'completed exchanges, without SDK retries' CODEC(T64, ZSTD(1)),
    `failed_calls` UInt32 CODEC(T64, ZSTD(1)),
    `last_exchange_id` String CODEC(ZSTD(1)),
    `last_status` UInt16 COMMENT 'HTTP status of last_exchange_id; 0 if no response arrived',
    `last_cause` LowCardinality(String) COMMENT 'empty if the last exchange did not fail',
    INDEX run_id_index run_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX conversation_id_index conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX seen_at_index seen_at TYPE minmax GRANULARITY 1)
ENGINE = ReplacingMergeTree(seq)
ORDER BY id
SETTINGS index_granularity = 8192;

CREATE VIEW runs_final
(
    `id` String,
    `seq` UInt64,
    `service` LowCardinality(String),
    `service_version` LowCardinality(String),
    `environment` LowCardinality(String),
    `agent` LowCardinality(String),
    `stage` LowCardinality(String),
    `conversation_id` String,
    `run_id` String,
    `user` String,
    `status` LowCardinality(String),
    `seen_at` DateTime64(9, 'UTC'),
    `started_at` Nullable(DateTime64(9, 'UTC')),
    `ended_at` Nullable(DateTime64(9, 'UTC')),
    `calls` UInt32,
    `failed_calls` UInt32,
    `last_exchange_id` String,
    `last_status` UInt16,
    `last_cause` LowCardinality(String))
AS SELECT * FROM runs FINAL;

CREATE TABLE tool_calls
(
    `id` String COMMENT 'hash of the exchange that requested the call, the position and the call id' CODEC(ZSTD(1)),
    `seq` UInt64 COMMENT 'stream sequence; version of the row' CODEC(Delta(8), ZSTD(1)),
    `service` LowCardinality(String),
    `service_version` LowCardinality(String),
    `environment` LowCardinality(String),
    `agent` LowCardinality(String),
    `stage` LowCardinality(String) COMMENT 'the agent if no stage is set',
    `conversation_id` String CODEC(ZSTD(1)),
    `run_id` String CODEC(ZSTD(1)),
    `user` String CODEC(ZSTD(1)),
    `attributes` Map(LowCardinality(String), String) COMMENT 'as in exchanges' CODEC(ZSTD(1)),
    `exchange_id` String COMMENT 'the exchange whose response requested the call' CODEC(ZSTD(1)),
    `tool_call_id` String COMMENT 'id from the provider; not unique' CODEC(ZSTD(1)),
    `tool_name` LowCardinality(String),
    `state` LowCardinality(String) COMMENT 'open, answered, missing, duplicate, late, rejected, abandoned, terminal',
    `asked_at` DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    `answered_at` Nullable(DateTime64(9, 'UTC')) COMMENT 'NULL while open' CODEC(Delta(8), ZSTD(1)),
    `answered_by` String COMMENT 'the exchange whose request contained the reply' CODEC(ZSTD(1)),
    `started_at` Nullable(DateTime64(9, 'UTC')) COMMENT 'when the tool started; NULL if the agent does not report it' CODEC(Delta(8), ZSTD(1)),
    `ended_at` Nullable(DateTime64(9, 'UTC')) COMMENT 'when the tool ended' CODEC(Delta(8), ZSTD(1)),
    `tool_status` LowCardinality(String) COMMENT 'started, ok, error, cancelled; empty if the agent does not report it',
    `stored_at` DateTime('UTC') DEFAULT toDateTime(asked_at, 'UTC') COMMENT 'stream time of this version' CODEC(Delta(4), ZSTD(1)),
    `reply_error` LowCardinality(String) COMMENT 'certain or likely if the reply reports an error, else empty',
    INDEX exchange_id_index exchange_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX conversation_id_index conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX tool_call_id_index tool_call_id TYPE bloom_filter(0.01) GRANULARITY 1)
ENGINE = ReplacingMergeTree(seq)
PARTITION BY toYYYYMM(asked_at)
ORDER BY (toStartOfHour(asked_at), id)
SETTINGS merge_selector_base = 10, min_parts_to_merge_at_once = 10, index_granularity = 8192;

CREATE VIEW tool_calls_final
(
    `id` String,
    `seq` UInt64,
    `service` LowCardinality(String),
    `service_version` LowCardinality(String),
    `environment` LowCardinality(String),
    `agent` LowCardinality(String),
    `stage` LowCardinality(String),
    `conversation_id` String,
    `run_id` String,
    `user` String,
    `attributes` Map(LowCardinality(String), String),
    `exchange_id` String,
    `tool_call_id` String,
    `tool_name` LowCardinality(String),
    `state` LowCardinality(String),
    `asked_at` DateTime64(9, 'UTC'),
    `answered_at` Nullable(DateTime64(9, 'UTC')),
    `answered_by` String,
    `started_at` Nullable(DateTime64(9, 'UTC')),
    `ended_at` Nullable(DateTime64(9, 'UTC')),
    `tool_status` LowCardinality(String),
    `stored_at` DateTime('UTC'),
    `reply_error` LowCardinality(String))
AS SELECT * FROM tool_calls FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;

