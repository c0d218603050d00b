-- How do the versions of a service compare?
-- since 1 hour
SELECT
    service,
    service_version,
    countIf({counted}) AS calls,
    countIf(failed AND {counted}) AS failed_calls,
    sumMapIf(map({reason}, toUInt64(1)), failed AND {counted}) AS reason_counts,
    arraySort(k -> (-reason_counts[k], k), mapKeys(reason_counts)) AS reasons,
    arrayMap(k -> reason_counts[k], reasons) AS reason_calls,
    uniqIf(conversation_id, conversation_id != '') AS conversations,
    {tokens_per_call} AS tokens,
    {latency 0.5} AS p50,
    {latency 0.95} AS p95,
    min(started_at) AS first_call,
    max(started_at) AS last_call,
    minOrNullIf(started_at, failed AND {counted}) AS first_failure
FROM exchanges FINAL
WHERE {filter exchanges EXCEPT version}
GROUP BY service, service_version
ORDER BY service, first_call DESC
LIMIT 500
