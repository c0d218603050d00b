-- Which error texts are unexplained? One row per wording.
-- group Failures
-- since 7 days
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
FROM exchanges FINAL
WHERE failed
    AND {counted}
    AND cause = 'unexplained'
    AND {filter exchanges}
GROUP BY error_cluster
ORDER BY failed_calls DESC, error_cluster
LIMIT 100
