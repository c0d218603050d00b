-- Which exchanges and conversations have an id that begins so?
-- since 7 days
-- param id: the beginning of the id
-- Exchanges, history and findings are read by their sort keys, in all time. Conversations without bodies and findings have no
-- row in history and findings: they are found within the time range.
WITH
    conversations AS
    (
        SELECT DISTINCT conversation_id FROM history WHERE startsWith(conversation_id, {id:String}) LIMIT 10
        UNION DISTINCT
        SELECT DISTINCT conversation_id FROM findings WHERE startsWith(conversation_id, {id:String}) LIMIT 10
        UNION DISTINCT
        SELECT DISTINCT conversation_id FROM exchanges WHERE startsWith(conversation_id, {id:String}) AND {filter exchanges ONLY time} LIMIT 10
    )
SELECT *
FROM
(
    SELECT
        'exchange' AS kind, exchange_id AS id, exchange_id AS exchange, argMax(conversation_id, seq) AS conversation,
        toString(argMax(service, seq)) AS of_service, toString(argMax(stage, seq)) AS of_stage, toString(argMax(cause, seq)) AS about,
        toUInt64(1) AS calls, toUInt64(argMax(failed, seq)) AS failed_calls, min(started_at) AS began, max(started_at) AS ended
    FROM exchanges
    WHERE startsWith(exchange_id, {id:String})
    GROUP BY exchange_id
    ORDER BY exchange_id DESC
    LIMIT 10
    UNION ALL
    SELECT
        'conversation', conversation_id, argMax(exchange_id, started_at), conversation_id, toString(argMax(service, started_at)), toString(argMax(stage, started_at)), '',
        uniqExact(exchange_id), uniqExactIf(exchange_id, failed), min(started_at), max(started_at)
    FROM exchanges
    WHERE conversation_id IN (SELECT conversation_id FROM conversations)
    GROUP BY conversation_id
)
ORDER BY kind, ended DESC
LIMIT 20
