-- Who uses how many tokens, at which cost and latency?
-- group Usage and latency
-- since 1 day
-- bound prices: price table of the configuration, as JSON
-- Calls whose response reports no usage (unreported) are not in the tokens and the cost; if none reports it, both are NULL.
-- cost_usd is also NULL for models that are not in the price table of the configuration. Latencies are those of successful calls;
-- first_byte is the time until the response begins.
WITH
    JSONExtract({prices:String}, 'Array(Tuple(String, String, Float64, Float64, Float64))') AS prices,
    arrayFirstIndex(p -> (p.1 = '' OR p.1 = provider) AND model LIKE p.2, prices) AS known,
    prices[known] AS price
SELECT
    service,
    agent,
    provider,
    model,
    count() AS calls,
    countIf(failed) AS failed_calls,
    countIf(input_tokens IS NULL) AS unreported,
    sum(input_tokens) AS input,
    sum(cached_tokens) AS cached,
    sum(output_tokens) AS output,
    round(if(known = 0, NULL, ((input - cached) * price.3 + cached * price.4 + output * price.5) / 1e6), 4) AS cost_usd,
    round(quantileIf(0.5)(duration, NOT failed), 2) AS p50_seconds,
    round(quantileIf(0.95)(duration, NOT failed), 2) AS p95_seconds,
    round(quantileIf(0.5)(first_byte, NOT failed AND first_byte > 0), 2) AS p50_first_byte,
    round(quantileIf(0.95)(first_byte, NOT failed AND first_byte > 0), 2) AS p95_first_byte
FROM exchanges_final
WHERE {filter exchanges}
GROUP BY service, agent, provider, model
ORDER BY cost_usd DESC NULLS LAST, input + output DESC NULLS LAST, service, agent, provider, model
LIMIT 100
