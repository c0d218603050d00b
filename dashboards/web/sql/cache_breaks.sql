-- What became of the prompt cache in the calls of each version, and what broke it?
-- since 1 hour
-- bound prices: price table of the configuration, as JSON
-- Only calls whose answer says what was read from the cache. Without a reason, nothing was missed. unpriced are missed tokens of models that
-- are not in the price table. Elements have no index of a message, nor of the first of tools in another order.
-- most_missed are the missed tokens of the worst call. The rows without a reason come first, so that the limit leaves out only cheap reasons.
WITH
    {price}
SELECT
    service,
    stage,
    service_version,
    reason,
    element,
    detail,
    sum(n) AS calls,
    sum(input) AS input_tokens,
    sum(cached) AS cached_tokens,
    sum(can) AS reusable,
    sum(lost) AS missed,
    sum(if(known = 0, 0, lost * (price.3 - price.4) / 1e6)) AS missed_usd,
    sumIf(lost, known = 0) AS unpriced,
    min(first_at) AS first_call,
    max(last_at) AS last_call,
    argMin(first_id, first_at) AS first_exchange_id,
    max(worst) AS most_missed,
    argMax(worst_id, worst) AS worst_exchange_id
FROM
(
    SELECT
        service,
        stage,
        service_version,
        provider,
        model,
        toString(cache_break) AS reason,
        {cache_element} AS element,
        {cache_detail} AS detail,
        count() AS n,
        coalesce(sum(e.input_tokens), 0) AS input,
        coalesce(sum(e.cached_tokens), 0) AS cached,
        coalesce(sum(cache_reusable_tokens), 0) AS can,
        coalesce(sum(cache_missed_tokens), 0) AS lost,
        min(started_at) AS first_at,
        max(started_at) AS last_at,
        argMin(exchange_id, started_at) AS first_id,
        coalesce(max(cache_missed_tokens), 0) AS worst,
        argMax(exchange_id, (cache_missed_tokens, started_at)) AS worst_id
    FROM exchanges AS e FINAL
    WHERE cache_reusable_tokens IS NOT NULL
        AND {filter exchanges AS e}
    GROUP BY service, stage, service_version, provider, model, reason, element, detail
)
GROUP BY service, stage, service_version, reason, element, detail
ORDER BY reason = '' DESC, missed_usd DESC, missed DESC, service, stage, service_version, reason, element, detail
LIMIT 2000
