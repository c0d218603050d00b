-- What has this id?
-- param id: the whole id
-- Each part reads by an index of its column, in all time. Rows may be stored several times; the newest one counts.
SELECT *
FROM
(
    SELECT
        'exchange' AS kind, {id:String} AS id, exchange_id AS exchange, argMax(conversation_id, seq) AS conversation,
        toString(argMax(service, seq)) AS of_service, toString(argMax(stage, seq)) AS of_stage, toString(argMax(cause, seq)) AS about,
        toUInt64(1) AS calls, toUInt64(argMax(failed, seq)) AS failed_calls, min(started_at) AS began, max(started_at) AS ended
    FROM exchanges
    WHERE exchange_id = {id:String}
    GROUP BY exchange_id
    UNION ALL
    SELECT
        'conversation', {id:String}, argMax(exchange_id, started_at), {id:String}, toString(argMax(service, started_at)), toString(argMax(stage, started_at)), '',
        uniqExact(exchange_id), uniqExactIf(exchange_id, failed), min(started_at), max(started_at)
    FROM exchanges
    WHERE conversation_id = {id:String}
    HAVING count() > 0
    UNION ALL
    SELECT *
    FROM
    (
        SELECT
            'user', {id:String}, argMax(exchange_id, started_at), conversation_id, toString(argMax(service, started_at)), toString(argMax(stage, started_at)), '',
            uniqExact(exchange_id), uniqExactIf(exchange_id, failed), min(started_at), max(started_at) AS last_call
        FROM exchanges
        WHERE user = {id:String} AND user != ''
        GROUP BY conversation_id
        ORDER BY last_call DESC
        LIMIT 20
    )
    UNION ALL
    SELECT *
    FROM
    (
        SELECT
            'tool call', {id:String}, if(argMax(answered_by, seq) != '', argMax(answered_by, seq), argMax(exchange_id, seq)), argMax(conversation_id, seq),
            toString(argMax(service, seq)), toString(argMax(stage, seq)), concat(argMax(tool_name, seq), ', ', argMax(state, seq)),
            toUInt64(1), toUInt64(0), min(asked_at), max(asked_at) AS last_call
        FROM tool_calls
        WHERE tool_call_id = {id:String}
        GROUP BY id
        ORDER BY last_call DESC
        LIMIT 20
    )
    UNION ALL
    SELECT
        'run', {id:String}, argMax(last_exchange_id, seq), argMax(conversation_id, seq), toString(argMax(service, seq)), toString(argMax(stage, seq)), toString(argMax(status, seq)),
        toUInt64(argMax(calls, seq)), toUInt64(argMax(failed_calls, seq)), min(seen_at), max(seen_at)
    FROM runs
    WHERE run_id = {id:String}
    GROUP BY id
    UNION ALL
    SELECT
        'finding', {id:String}, argMax(exchange_id, seq), argMax(conversation_id, seq), toString(argMax(service, seq)), toString(argMax(stage, seq)), argMax(summary, seq),
        toUInt64(1), toUInt64(0), min(first_seen), max(first_seen)
    FROM findings
    WHERE finding_id = {id:String}
    GROUP BY finding_id
    UNION ALL
    SELECT
        'alert', {id:String}, argMax(example, version), '', argMax(labels['service'], version), argMax(labels['stage'], version), argMax(summary, version),
        argMax(calls, version), argMax(failed, version), min(started_at), max(started_at)
    FROM alerts
    WHERE alert_id = {id:String}
    GROUP BY alert_id
)
ORDER BY kind, ended DESC
LIMIT 100
