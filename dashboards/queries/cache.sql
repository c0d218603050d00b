-- What broke the prompt cache, since when, and what does it cost?
-- group Usage and latency
-- since 1 day
-- param reason = : only this reason, such as system_changed
-- bound prices: price table of the configuration, as JSON
-- One row for each reason and element of a day, stage, version and model; without a reason, nothing was missed. calls to read_percent are
-- about all calls of the day, stage, version and model, and the columns after reason only about those of the reason. Calls whose answer
-- does not say what was read from the cache (without_usage) are in no other number; if none says it, the numbers are NULL. cached_percent is
-- the share of the input that was read from the cache, and read_percent that of the tokens that could have been read: reusable. Elements
-- have no index of a message, nor of the first of tools in another order. missed_usd is NULL for models that are not in the price table.
WITH
    {price}
SELECT
    day,
    service,
    stage,
    service_version,
    provider,
    model,
    all_calls AS calls,
    all_unreported AS without_usage,
    if(all_calls > all_unreported, all_input, NULL) AS input,
    if(all_calls > all_unreported, {percent all_cached of all_input}, NULL) AS cached_percent,
    if(all_calls > all_unreported, all_reusable, NULL) AS reusable,
    {percent all_reusable - all_missed of all_reusable} AS read_percent,
    reason,
    element,
    detail,
    if(reason = '', 0, n) AS calls_with_it,
    if(all_calls > all_unreported, missed_tokens, NULL) AS missed,
    round(if(missed > 0 AND known = 0, NULL, missed * (price.3 - price.4) / 1e6), 4) AS missed_usd,
    if(reason = '', NULL, first_at) AS first_call,
    if(reason = '', '', first_id) AS first_exchange_id
FROM
(
    SELECT
        *,
        sum(n) OVER alike AS all_calls,
        sum(n_unreported) OVER alike AS all_unreported,
        sum(input_tokens) OVER alike AS all_input,
        sum(cached) OVER alike AS all_cached,
        sum(reusable_tokens) OVER alike AS all_reusable,
        sum(missed_tokens) OVER alike AS all_missed,
        max(reason != '') OVER alike AS broken
    FROM
    (
        SELECT
            toString(toDate(started_at, 'UTC')) AS day,
            service,
            stage,
            service_version,
            provider,
            model,
            toString(cache_break) AS reason,
            {cache_element} AS element,
            {cache_detail} AS detail,
            countIf({counted}) AS n,
            countIf(cache_reusable_tokens IS NULL AND {counted}) AS n_unreported,
            coalesce(sumIf(e.input_tokens, cache_reusable_tokens IS NOT NULL), 0) AS input_tokens,
            coalesce(sumIf(e.cached_tokens, cache_reusable_tokens IS NOT NULL), 0) AS cached,
            coalesce(sum(cache_reusable_tokens), 0) AS reusable_tokens,
            coalesce(sum(cache_missed_tokens), 0) AS missed_tokens,
            min(started_at) AS first_at,
            argMin(exchange_id, started_at) AS first_id
        FROM exchanges AS e FINAL
        WHERE {filter exchanges AS e}
        GROUP BY day, service, stage, service_version, provider, model, reason, element, detail
    )
    WINDOW alike AS (PARTITION BY day, service, stage, service_version, provider, model)
)
WHERE if({reason:String} = '', reason != '' OR NOT broken, reason = {reason:String})
ORDER BY missed > 0 DESC NULLS LAST, missed_usd DESC NULLS LAST, missed DESC, day DESC, service, stage, service_version, provider, model, reason, element, detail
LIMIT 100
