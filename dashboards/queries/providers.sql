-- Which provider and model fails, and which is slow?
-- group Providers
-- since 1 hour
-- param cause = : count only failures with this cause
-- Latencies are those of successful calls; first_byte is the time until the response begins. tokens_per_second is the median of
-- output tokens by duration. SDK retries and calls cancelled by the agent are not counted.
WITH failed AND {filter exchanges ONLY status} AND ({cause:String} = '' OR cause = {cause:String}) AS hit
SELECT
    provider,
    model,
    server,
    count() AS calls,
    countIf(hit) AS failed_calls,
    {percent failed_calls of calls} AS failed_percent,
    topKIf(1)({said cause}, hit)[1] AS main_cause,
    arraySort(groupUniqArrayIf(10)(status, hit)) AS statuses,
    maxOrNullIf(started_at, hit) AS last_failure,
    {latency 0.5} AS p50_seconds,
    {latency 0.95} AS p95_seconds,
    {latency 0.99} AS p99_seconds,
    {first_byte 0.5} AS p50_first_byte,
    round(quantileOrNullIf(0.5)(assumeNotNull(output_tokens) / duration, NOT failed AND output_tokens > 0 AND duration > 0), 1) AS tokens_per_second
FROM exchanges FINAL
WHERE {filter exchanges EXCEPT status}
    AND {counted}
GROUP BY provider, model, server
ORDER BY failed_calls DESC, calls DESC, provider, model, server
LIMIT 100
