package scaletest

// A row number always generates the same exchange. A conversation is twelve exchanges within 1,200, of one of twelve services,
// the first of which have most of the calls; each service has a new version every three days. Two percent of the calls fail for
// ordinary causes. Every service has an incident that lasts a twentieth of a day, in which 40 % of the calls of one stage fail.
const exchanges = `INSERT INTO exchanges (exchange_id, seq, service, service_version, environment, agent, stage, conversation_id, run_id, user,
	started_at, stored_at, operation, provider, server, path, dialect, variant, model, response_model, status, failed, error_type, cause, cause_known,
	cause_class, root_cause, error_text, error_cluster, input_tokens, output_tokens, cached_tokens, duration, first_byte, finish_reason, stream,
	request_bytes, response_bytes, messages, tool_calls, findings, rejects, retry, instance, instance_seq, origin, capture, provider_request_id,
	response_id, branch, parameters, messages_at, answer)
WITH
	cityHash64(number, 1) AS h,
	intDiv(number, 1200) * 100 + number % 100 AS conv,
	intDiv(number % 1200, 100) AS turn,
	cityHash64(conv, 2) AS hc,
	toUInt32(12 * pow(hc % 10007 / 10007, 2)) AS svc,
	{begin} + toUInt64(number / {total} * {span}) + h % 200 AS ms,
	intDiv(ms - {begin}, 86400000) AS day,
	h % 5 AS stage_number,
	stage_number = svc % 5 AND day = 29 - svc % 6 AND (ms - {begin}) % 86400000 > 72000000 AND (ms - {begin}) % 86400000 < 76320000 AND h % 1000 < 400 AS hit,
	h % 997 < 20 AS daily,
	multiIf(hit, 'orphan_tool_reply', NOT daily, '', h % 7 < 3, 'rate_limit', h % 7 = 3, 'server_error', h % 7 = 4, 'context_length_exceeded',
		h % 7 = 5, 'missing_tool_reply', 'unexplained') AS why,
	lower(hex(ms)) AS time_digits,
	number AS exchange,
	lower(hex(sipHash128(number))) AS digits
SELECT
	concat(substring(time_digits, -12, 8), '-', substring(time_digits, -4), '-7', substring(digits, 1, 3), '-8', substring(digits, 4, 3), '-', substring(digits, 7, 12)),
	2 * number,
	concat('service-', toString(svc)),
	concat('1.', toString(intDiv(day, 3)), '.', toString(svc)),
	'production',
	concat('agent-', toString(svc)),
	['planner', 'executor', 'summariser', 'reviewer', 'router'][stage_number + 1],
	concat('conv-', lower(hex(hc))),
	concat('run-', lower(hex(hc))),
	lower(hex(cityHash64(hc % 50000))),
	fromUnixTimestamp64Milli(ms, 'UTC'),
	fromUnixTimestamp64Milli(ms + 900, 'UTC'),
	'chat',
	['deepseek', 'openai', 'anthropic', 'gcp.gemini'][svc % 4 + 1],
	['api.deepseek.com', 'api.openai.com', 'api.anthropic.com', 'generativelanguage.googleapis.com'][svc % 4 + 1],
	'/chat/completions',
	['openai_chat', 'openai_chat', 'anthropic', 'gemini'][svc % 4 + 1],
	['deepseek', 'openai', 'anthropic', 'gemini'][svc % 4 + 1],
	['deepseek-chat', 'gpt-5', 'claude-sonnet-4-5', 'gemini-2.5-pro'][svc % 4 + 1],
	'',
	multiIf(why = '', 200, why = 'rate_limit', 429, why = 'server_error', 503, 400) AS code,
	why != '',
	multiIf(why = '', '', why = 'rate_limit', 'rate_limit_error', why = 'server_error', 'server_error', 'invalid_request_error'),
	why,
	if(why = '', '', 'stated'),
	if(why = '', '', 'class'),
	if(hit, 'tool_calls_dropped_on_save', ''),
	if(why = '', '', concat('Messages with role tool must be a response to a preceding message with tool_calls: ', digits)),
	if(why = '', '', concat('wording ', toString(h % 40))),
	if(why = '', 1000 + 900 * turn + h % 700, 0),
	if(why = '', 20 + h % 400, 0),
	if(why = '', 900 * turn, 0),
	0.4 + (h % 4001) / 500 * (h % 13) / 6,
	0.1 + (h % 800) / 1000,
	multiIf(why != '', '', h % 10 < 6, 'tool_calls', 'stop'),
	h % 2 = 0,
	4000 + 3600 * turn + h % 2800,
	900 + h % 3000,
	2 + 2 * turn,
	why = '' AND h % 10 < 6,
	hit,
	hit,
	if(h % 100 = 7, 1, 0),
	lower(hex(hc % 60)),
	number,
	'hook',
	'shape',
	concat('req_', digits),
	concat('chatcmpl-', digits),
	concat('branch-', lower(hex(hc))),
	lower(hex(sipHash128(svc))),
	80,
	` + answerID + `
FROM {source}`

// others generate the other rows of the exchanges with these sequences.
var others = []string{
	`INSERT INTO tool_calls (id, seq, service, service_version, environment, agent, stage, conversation_id, run_id, user, exchange_id, tool_call_id,
		tool_name, state, asked_at, answered_at, started_at, ended_at, tool_status)
	WITH cityHash64(exchange_id) AS h
	SELECT lower(hex(sipHash128(exchange_id, 0))), seq, service, service_version, environment, agent, stage, conversation_id, run_id, user, exchange_id,
		concat('call_', lower(hex(h))), concat('tool_', toString(h % 40)),
		multiIf(h % 1000 < 970, 'answered', h % 1000 < 980, 'missing', h % 1000 < 985, 'abandoned', h % 1000 < 990, 'terminal', 'open') AS state,
		stored_at, if(state = 'answered', stored_at + toIntervalMillisecond(200 + h % 30000), NULL),
		if(h % 4 = 0, stored_at + toIntervalMillisecond(20), NULL), if(h % 4 = 0, stored_at + toIntervalMillisecond(100 + h % 20000), NULL), if(h % 4 = 0, 'ok', '')
	FROM exchanges WHERE seq >= {from} AND seq < {to} AND tool_calls > 0 AND stored_at >= toDateTime64(0, 9)`,
	`INSERT INTO findings (finding_id, fingerprint, seq, first_seen, exchange_id, exchange_version, service, service_version, environment, agent, stage,
		conversation_id, run_id, user, provider, model, dialect, variant, rule_id, detail, predicted, severity, rejected_by, status, message_index,
		tool_call_id, tool_name, summary, root_cause, confidence, evidence, fix, first_version, last_clean_version)
	WITH
		cityHash64(exchange_id) AS h,
		multiIf(root_cause != '', 'orphan_tool_reply', failed AND h % 3 = 0, 'conversation_ended_on_error', failed AND h % 3 = 1, 'masked_failure',
			h % 97 < 3, 'latent_violation', h % 97 < 6, 'tool_content_not_string', h % 100003 = 9, 'provider_tightened', '') AS rule,
		root_cause = '' AND rule != 'tool_content_not_string' AS is_signal
	SELECT lower(hex(sipHash128(exchange_id, 1))), lower(hex(cityHash64(service, stage, rule))), seq, stored_at, exchange_id, service_version, service,
		service_version, environment, agent, stage, if(rule = 'provider_tightened', '', conversation_id), run_id, user, provider, model, dialect, variant, rule,
		multiIf(rule = 'latent_violation', 'tool_content_not_string', failed AND is_signal, cause, 'after_plain_assistant'),
		if(is_signal, 'signal', 'reject'), multiIf(is_signal, 'signal', failed, 'reject', 'lenient'),
		if(rule = 'latent_violation', ['openai_chat/deepseek', 'openai_chat/openai'], []), status, 2, concat('call_', lower(hex(h))), concat('tool_', toString(h % 40)),
		concat('tool message answers call_', lower(hex(h)), ', but the assistant message before it has no tool_calls'), root_cause, 'high',
		concat('answer 1 asked for call call_', lower(hex(h)), '; message 1 of the next request is the same answer without tool_calls'),
		'Save the whole assistant message, tool_calls included.', service_version, ''
	FROM exchanges WHERE seq >= {from} AND seq < {to} AND rule != ''`,
	`INSERT INTO runs (id, seq, service, service_version, environment, agent, stage, conversation_id, run_id, user, status, seen_at, started_at, ended_at, calls,
		failed_calls, last_exchange_id, last_status, last_cause)
	SELECT lower(hex(sipHash128(run_id))), seq, service, service_version, environment, agent, stage, conversation_id, run_id, user, 'ok', stored_at,
		started_at - 60, stored_at, 12, failed, exchange_id, status, cause
	FROM exchanges WHERE seq >= {from} AND seq < {to} AND messages = 24`,
	`INSERT INTO alerts (alert_id, version, name, severity, labels, state, started_at, ended_at, value, peak, failed, calls, shares, first_bad, last_clean, example, summary)
	SELECT lower(hex(sipHash128(exchange_id, 2))), seq, 'StageFailureRate', 'critical', map('service', toString(service), 'stage', toString(stage)), 'resolved', started_at, stored_at, 0.4, 0.45,
		412, 1030, map('tool_calls_dropped_on_save', 400), service_version, '', exchange_id, '412 of 1,030 planner calls failed'
	FROM exchanges WHERE seq >= {from} AND seq < {to} AND root_cause != '' AND cityHash64(exchange_id) % 20 = 0`,
}

// place is the second in which conversation conv began, and answerID the message id of the response of an exchange.
const (
	place    = "lower(hex(toUInt32(({begin} + toUInt64((intDiv(conv, 100) * 1200 + conv % 100) / {total} * {span})) / 1000)))"
	answerID = "concat(" + place + ", lower(hex(sipHash128(exchange, 5))))"
)

// words generate a text of 10 to 70 words and numbers. One text in 100 contains the word timeout, one in 100,000 the word
// needle.
const words = `concat(arrayStringConcat(arrayMap(i -> concat(
		['connect', 'accept', 'read', 'file', 'module', 'import', 'error', 'line', 'value', 'config', 'server', 'port', 'return', 'def', 'class', 'user']
		[cityHash64(h, i) % 16 + 1], ' ', toString(cityHash64(h, i) % 3000)), range(10 + h % 60)), ' '),
		if(h % 100 = 0, ' timeout', ''), if(h % 100003 = 0, ' needle', ''))`

// messages generate twenty messages, one in five of which is shared with other conversations, and twelve responses for each
// of the newest conversations.
var messages = []string{
	`INSERT INTO messages (id, kind, seen_at, bytes, body)
	WITH ` + history + `,
		concat('{"role":"tool","tool_call_id":"call_', lower(hex(h)), '","content":"', ` + words + `, '"}') AS body
	SELECT message, 'message', seen, length(body), body
	FROM numbers({from} * 20, {conversations} * 20)`,
	`INSERT INTO history (conversation_id, branch, position, message_id, role, service, exchange_id, seq, seen_at)
	WITH ` + history + `
	SELECT concat('conv-', lower(hex(hc))), concat('branch-', lower(hex(hc))), number % 20, message, 'tool',
		concat('service-', toString(toUInt32(12 * pow(hc % 10007 / 10007, 2)))), lower(hex(sipHash128(exchange))), 2 * exchange, seen
	FROM numbers({from} * 20, {conversations} * 20)`,
	`INSERT INTO messages (id, kind, seen_at, bytes, body)
	WITH
		intDiv(number, 12) AS conv,
		intDiv(conv, 100) * 1200 + number % 12 * 100 + conv % 100 AS exchange,
		cityHash64(exchange, 4) AS h,
		concat('{"choices":[{"index":0,"message":{"role":"assistant","content":"', ` + words + `, '"}}]}') AS body
	SELECT ` + answerID + `, 'answer', fromUnixTimestamp64Milli({begin} + toUInt64(exchange / {total} * {span}), 'UTC'), length(body), body
	FROM numbers({from} * 12, {conversations} * 12)`,
}

// history maps a number to a message of conversation conv, sent first with exchange.
const history = `
		intDiv(number, 20) AS conv,
		intDiv(conv, 100) * 1200 + (1 + intDiv(number % 20, 2)) * 100 + conv % 100 AS exchange,
		cityHash64(conv, 2) AS hc,
		fromUnixTimestamp64Milli({begin} + toUInt64(exchange / {total} * {span}), 'UTC') AS seen,
		cityHash64(if(number % 5 = 0, number % 1000, number), 3) AS h,
		concat(if(number % 5 = 0, '00000000', ` + place + `),
			lower(hex(sipHash128(h)))) AS message`
