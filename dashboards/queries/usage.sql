-- Who uses how many tokens, at which cost and latency?
-- group Usage and latency
-- param since = 1 day: start of the time range
-- param until = : end of the time range
-- param service = : only this service
-- param stage = : only this stage
-- param model = : only this model
-- bound prices: price table of the configuration, as JSON
-- cost_usd is NULL for models that are not in the price table of the configuration. Latencies are those of successful calls;
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
    sum(input_tokens) AS input,
    sum(cached_tokens) AS cached,
    sum(output_tokens) AS output,
    round(if(known = 0, NULL, ((input - cached) * price.3 + cached * price.4 + output * price.5) / 1e6), 4) AS cost_usd,
    round(quantileIf(0.5)(duration, NOT failed), 2) AS p50_seconds,
    round(quantileIf(0.95)(duration, NOT failed), 2) AS p95_seconds,
    round(quantileIf(0.5)(first_byte, NOT failed AND first_byte > 0), 2) AS p50_first_byte,
    round(quantileIf(0.95)(first_byte, NOT failed AND first_byte > 0), 2) AS p95_first_byte
FROM exchanges_final
WHERE started_at >= {since:DateTime64(9, 'UTC')}
    AND started_at < {until:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR service = {service:String})
    AND ({stage:String} = '' OR stage = {stage:String})
    AND ({model:String} = '' OR model = {model:String})
GROUP BY service, agent, provider, model
ORDER BY cost_usd DESC NULLS LAST, input + output DESC, service, agent, provider, model
LIMIT 100
