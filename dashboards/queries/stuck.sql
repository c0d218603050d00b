-- Which conversations are stuck: is each further call refused, because the stored history is broken?
-- group Conversations
-- since 1 day
-- param cause = : only this cause
-- The newest failure comes first. Refused means that the provider would refuse the same request again. Failures for lack of
-- capacity, credit or a key, calls without a response and SDK retries do not count. A conversation with a success since its first
-- refused call, in any stage, is not stuck. message_index is the position of the defect in exchange_id, and NULL if no rule
-- explains the refusal.
WITH
    (failed, status, cause_class, retry) -> failed AND status BETWEEN 400 AND 498 AND status NOT IN (408, 409, 425, 429)
        AND cause_class NOT IN ('access', 'policy', 'provider') AND retry = 0 AS is_refused,
    (
        SELECT groupArray(conversation_id)
        FROM
        (
            SELECT conversation_id
            FROM exchanges FINAL
            WHERE is_refused(failed, status, cause_class, retry)
                AND conversation_id != ''
                AND {filter exchanges ONLY time}
            GROUP BY conversation_id
            HAVING count() >= 2
                AND countIf({filter exchanges EXCEPT time} AND {cause:String} IN ('', cause)) > 0
        )
    ) AS refused,
    calls AS
    (
        SELECT *, max(if(failed, NULL, started_at)) OVER (PARTITION BY conversation_id) AS succeeded_at
        FROM exchanges FINAL
        WHERE conversation_id IN (SELECT arrayJoin(refused))
            AND {filter exchanges ONLY time}
    ),
    (
        SELECT groupArray((conversation_id, newest, n, first_at, last_at))
        FROM
        (
            SELECT
                conversation_id,
                argMax((toString(service), toString(service_version), toString(stage), toString(cause), toString(root_cause), exchange_id), started_at) AS newest,
                count() AS n,
                min(started_at) AS first_at,
                max(started_at) AS last_at
            FROM calls
            WHERE is_refused(failed, status, cause_class, retry)
                AND (succeeded_at IS NULL OR started_at > succeeded_at)
            GROUP BY conversation_id
            HAVING n >= 2
                AND {cause:String} IN ('', newest.4)
            ORDER BY last_at DESC, conversation_id
            LIMIT {limit:UInt32}
        )
    ) AS newest_stuck,
    stuck AS
    (
        SELECT arrayJoin(newest_stuck) AS c, c.1 AS conversation_id, c.2 AS newest, c.3 AS n, c.4 AS first_at, c.5 AS last_at
    ),
    -- The finding that explains the newest call, or else an earlier one.
    explained AS
    (
        SELECT
            f.conversation_id AS conversation_id,
            argMax((f.rule_id, f.detail, f.message_index, f.tool_call_id, f.fix, f.exchange_id),
                (f.rule_id = s.newest.4, f.root_cause = s.newest.5, f.first_seen)) AS best
        FROM findings AS f FINAL
        INNER JOIN stuck AS s ON s.conversation_id = f.conversation_id
        WHERE f.predicted = 'reject'
            AND f.conversation_id IN (SELECT conversation_id FROM stuck)
        GROUP BY conversation_id
    )
SELECT
    s.conversation_id AS conversation_id,
    s.newest.1 AS service,
    s.newest.2 AS service_version,
    s.newest.3 AS stage,
    s.newest.4 AS cause,
    s.newest.5 AS root_cause,
    s.n AS failed_in_a_row,
    s.first_at AS first_failed_at,
    s.last_at AS last_failed_at,
    e.best.1 AS rule_id,
    e.best.2 AS detail,
    if(rule_id = '' OR e.best.3 < 0, NULL, e.best.3) AS message_index,
    e.best.4 AS tool_call_id,
    e.best.5 AS fix,
    if(rule_id = '', s.newest.6, e.best.6) AS exchange_id
FROM stuck AS s
LEFT JOIN explained AS e ON e.conversation_id = s.conversation_id
ORDER BY last_failed_at DESC, conversation_id
LIMIT 100
