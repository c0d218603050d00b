-- Which error texts does nothing explain? One row for each wording.
-- group Failures
-- param since = 7 days: from when on
-- param until = : up to when
-- param service = : one service only
-- param stage = : one stage only
SELECT
    error_cluster AS wording,
    count() AS failed_calls,
    min(started_at) AS first_seen,
    max(started_at) AS last_seen,
    arraySort(groupUniqArray(20)(service)) AS services,
    arraySort(groupUniqArray(20)(server)) AS servers,
    arraySort(groupUniqArray(10)(status)) AS statuses,
    argMax(error_text, started_at) AS example_text,
    argMax(exchange_id, started_at) AS last_exchange_id
FROM exchanges_final
WHERE failed
    AND cause = 'unexplained'
    AND started_at >= {since:DateTime64(9, 'UTC')}
    AND started_at < {until:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR service = {service:String})
    AND ({stage:String} = '' OR stage = {stage:String})
GROUP BY error_cluster
ORDER BY failed_calls DESC, error_cluster
LIMIT 100
