-- Which error texts are unexplained? One row per wording.
-- group Failures
-- param since = 7 days: start of the time range
-- param until = : end of the time range
-- param service = : only this service
-- param stage = : only this stage
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
