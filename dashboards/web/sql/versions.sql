-- How do the versions of a service compare?
-- since 1 hour
SELECT
    service,
    service_version,
    countIf(counted) AS calls,
    countIf(failed AND counted) AS failed_calls,
    sumMapIf(map(toString(if(root_cause != '', root_cause, cause)), toUInt64(1)), failed AND counted) AS cause_counts,
    arraySort(k -> (-cause_counts[k], k), mapKeys(cause_counts)) AS causes,
    arrayMap(k -> cause_counts[k], causes) AS cause_calls,
    uniqIf(conversation_id, conversation_id != '') AS conversations,
    avgOrNull(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) AS tokens,
    quantileOrNullIf(0.5)(duration, NOT failed) AS p50,
    quantileOrNullIf(0.95)(duration, NOT failed) AS p95,
    min(started_at) AS first_call,
    max(started_at) AS last_call,
    minOrNullIf(started_at, failed AND counted) AS first_failure
FROM
(
    SELECT *, retry = 0 AND error_type != 'cancelled' AS counted
    FROM exchanges_final
    WHERE {filter exchanges EXCEPT version}
)
GROUP BY service, service_version
ORDER BY service, first_call DESC
LIMIT 500
