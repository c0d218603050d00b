-- What happened in one conversation? Every call in order, and its findings.
-- group Conversations
-- param conversation_id: as in the alert or another query
-- The index of the exchanges table finds the sort keys. Only their rows are read through the view, which would otherwise read
-- much more.
WITH found AS
(
    SELECT exchange_id, arraySort(groupUniqArray(20)(summary)) AS summaries
    FROM findings FINAL
    WHERE conversation_id = {conversation_id:String}
    GROUP BY exchange_id
)
SELECT
    e.started_at AS started_at,
    e.service AS service,
    e.service_version AS service_version,
    e.stage AS stage,
    e.model AS model,
    e.messages AS messages,
    e.status AS status,
    e.finish_reason AS finish_reason,
    e.tool_calls AS tool_calls,
    {said cause e.} AS cause,
    e.root_cause AS root_cause,
    found.summaries AS new_findings,
    e.error_text AS error_text,
    round(nullIf(e.duration, 0), 3) AS seconds,
    e.retry AS retry,
    e.exchange_id AS exchange_id
FROM exchanges AS e FINAL
LEFT JOIN found ON found.exchange_id = e.exchange_id
WHERE (toStartOfHour(e.started_at), e.service, e.exchange_id) IN
    (
        SELECT toStartOfHour(started_at), service, exchange_id
        FROM exchanges
        WHERE conversation_id = {conversation_id:String}
    )
    AND e.conversation_id = {conversation_id:String}
    AND {filter exchanges AS e EXCEPT time}
ORDER BY started_at, exchange_id
LIMIT 1000
