-- Which conversations were hit by a cause, and did they recover?
-- group Failures
-- since 1 day
-- param cause = : only this cause
-- The newest come first. A conversation recovered (went_on) if one of its calls succeeded after the last failure. Calls are
-- read by sort key, which the index of the exchanges table finds.
WITH
    (
        SELECT groupArray((conversation_id, n, first_failure, last_failure, causes, root, last_id))
        FROM
        (
            SELECT
                conversation_id,
                count() AS n,
                min(started_at) AS first_failure,
                max(started_at) AS last_failure,
                arraySort(groupUniqArray(5)(toString(cause))) AS causes,
                toString(argMax(root_cause, (root_cause != '', started_at))) AS root,
                argMax(exchange_id, started_at) AS last_id
            FROM exchanges FINAL
            WHERE failed
                AND {counted}
                AND conversation_id != ''
                AND {filter exchanges}
                AND ({cause:String} = '' OR cause = {cause:String})
            GROUP BY conversation_id
            ORDER BY last_failure DESC, conversation_id
            LIMIT {limit:UInt32}
        )
    ) AS newest,
    hit AS
    (
        SELECT arrayJoin(newest) AS h, h.1 AS conversation_id, h.2 AS n, h.3 AS first_failure, h.4 AS last_failure, h.5 AS causes, h.6 AS root, h.7 AS last_id
    )
SELECT
    c.conversation_id AS conversation_id,
    any(c.service) AS service,
    argMax(c.service_version, c.started_at) AS service_version,
    argMax(c.stage, c.started_at) AS last_stage,
    any(h.causes) AS causes,
    any(h.root) AS root_cause,
    any(h.n) AS failed_calls,
    countIf({counted}) AS calls,
    any(h.first_failure) AS first_failure,
    any(h.last_failure) AS last_failure,
    toBool(countIf(NOT c.failed AND c.started_at > h.last_failure) > 0) AS went_on,
    any(h.last_id) AS last_exchange_id
FROM exchanges AS c FINAL
INNER JOIN hit AS h ON h.conversation_id = c.conversation_id
WHERE (toStartOfHour(c.started_at), c.service, c.exchange_id) IN
    (
        SELECT toStartOfHour(started_at), service, exchange_id
        FROM exchanges
        WHERE conversation_id IN (SELECT conversation_id FROM hit)
            AND started_at >= {since:DateTime64(9, 'UTC')}
    )
    AND c.started_at >= {since:DateTime64(9, 'UTC')}
GROUP BY c.conversation_id
ORDER BY last_failure DESC, conversation_id
LIMIT 100
