-- In which order did the calls and tools of a conversation or run take place?
-- since 1 day
-- bound prices: price table of the configuration, as JSON
-- Calls of other conversations and services with the same trace context are those of nested agents; they take place within an hour.
WITH
    (
        SELECT (min(started_at) - INTERVAL 1 HOUR, max(started_at) + INTERVAL 1 HOUR, groupUniqArrayIf(100)(trace_id, trace_id != ''))
        FROM exchanges FINAL
        WHERE {filter calls}
    ) AS chosen,
    calls AS
    (
        SELECT
            *,
            {tokens}
        FROM exchanges FINAL
        WHERE {filter calls ONLY time}
            AND started_at >= chosen.1
            AND started_at <= chosen.2
            AND ({filter calls} OR has(chosen.3, trace_id))
        ORDER BY started_at, exchange_id
        LIMIT 500
    )
SELECT *
FROM
(
    WITH {model prices}
    SELECT
        'call' AS kind,
        toString(stage) AS name,
        started_at AS began,
        duration AS seconds,
        first_byte,
        toInt64(status) AS status,
        failed,
        if(root_cause IN ('', 'unknown_no_history'), {said cause}, toString(root_cause)) AS cause,
        toInt64(messages) AS messages,
        c.input_tokens AS input_tokens,
        c.output_tokens AS output_tokens,
        if(known = 0 OR c.input_tokens IS NULL, NULL, {model dollars}) AS cost,
        toInt64(retry) AS retry,
        exchange_id AS exchange,
        conversation_id AS conversation,
        toString(service) AS of_service,
        toString(agent) AS of_agent,
        parent_span_id AS span,
        trace_id AS trace
    FROM calls AS c
    UNION ALL
    SELECT
        'tool',
        toString(tool_name),
        asked_at,
        if(answered_at IS NULL, 0, dateDiff('millisecond', asked_at, assumeNotNull(answered_at)) / 1000),
        0,
        0,
        state NOT IN ('answered', 'terminal', 'open') OR tool_status = 'error' OR reply_error != '',
        if(state IN ('answered', 'terminal'), toString(reply_error), toString(state)),
        0,
        NULL,
        NULL,
        NULL,
        0,
        exchange_id,
        conversation_id,
        '',
        '',
        '',
        ''
    FROM tool_calls FINAL
    WHERE {filter tool_calls ONLY time}
        AND exchange_id IN (SELECT exchange_id FROM calls)
)
ORDER BY began, kind, exchange
LIMIT 1500
