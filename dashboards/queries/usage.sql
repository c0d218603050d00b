-- Who uses how many tokens, at which cost and latency?
-- group Usage and latency
-- since 1 day
-- bound prices: price table of the configuration, as JSON
-- Calls whose response reports no usage (without_usage) are not in the tokens, the tokens per call and the cost; if none reports it, they are
-- NULL. SDK retries are counted separately; they are in tokens and cost.
-- cost_usd is also NULL for models that are not in the price table of the configuration. Latencies are those of successful calls;
-- first_byte is the time until the response begins.
WITH
    {price},
    coalesce(sum(cache_hour_tokens), 0) AS hour
SELECT
    service,
    agent,
    provider,
    model,
    countIf({counted}) AS calls,
    countIf(failed AND {counted}) AS failed_calls,
    countIf(retry > 0) AS retries,
    countIf(input_tokens IS NULL) AS without_usage,
    sum(input_tokens) AS input,
    sum(cached_tokens) AS cached,
    coalesce(sum(cache_written_tokens), 0) AS written,
    sum(output_tokens) AS output,
    round(if(known = 0, NULL, {dollars}), 4) AS cost_usd,
    {tokens_per_call} AS tokens_per_call,
    {latency 0.5} AS p50_seconds,
    {latency 0.95} AS p95_seconds,
    {first_byte 0.5} AS p50_first_byte,
    {first_byte 0.95} AS p95_first_byte
FROM exchanges FINAL
WHERE {filter exchanges}
GROUP BY service, agent, provider, model
ORDER BY cost_usd DESC NULLS LAST, input + output DESC NULLS LAST, service, agent, provider, model
LIMIT 100
