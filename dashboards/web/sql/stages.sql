-- Which stages hurt most?
-- since 1 hour
-- Ranked by failed calls times their share. The calls of a stage without failures are listed last.
WITH failed AND {counted} AS hit
SELECT
    service,
    stage,
    environment,
    countIf({counted}) AS calls,
    countIf(hit) AS failed_calls,
    sumMapIf(map({reason}, 1), hit) AS counts,
    arraySort(k -> (-counts[k], k), mapKeys(counts))[1] AS reason,
    counts[reason] AS reason_calls,
    topKIf(1)(toString(service_version), hit)[1] AS worst_version,
    uniqIf(conversation_id, hit AND conversation_id != '') AS conversations,
    maxOrNullIf(started_at, hit) AS last_failure,
    coalesce(sum(input_tokens), 0) + coalesce(sum(output_tokens), 0) AS tokens,
    {latency 0.95} AS p95
FROM exchanges FINAL
WHERE {filter exchanges}
GROUP BY service, stage, environment
ORDER BY failed_calls * failed_calls / greatest(calls, 1) DESC, calls DESC, service, stage, environment
LIMIT 50
