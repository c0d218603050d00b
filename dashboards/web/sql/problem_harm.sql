-- How many users and tenants does a problem hit, and how many tokens and how much money do its calls take?
-- since 1 hour
-- param why = : only failures with this cause or root cause
-- param rules = : calls with findings of these rules or root causes, separated by commas, instead of failed calls
-- param measure = : calls with more of this measure than above, or whose answers end like this, instead of failed calls
-- param above = 0: see measure
-- bound prices: price table of the configuration, as JSON
-- Providers seldom report the usage of a failed call. about_tokens are the input tokens of the calls without one, estimated from the
-- tokens per byte of accepted requests to the same model. reported_usd is the price of the tokens of the calls that report usage, and
-- at_most_usd that of about_tokens, if rejected calls are charged; NULL: unknown. unpriced are the models that are not in the price table.
WITH
    {price h.},
    {hit},
    {accepted}
SELECT
    sum(h.n) AS calls,
    uniqExactMerge(h.user_count) AS users,
    uniqExactMerge(h.tenant_count) AS tenants,
    sum(h.input) AS input_tokens,
    sum(h.output) AS output_tokens,
    sum(h.unreported) AS unreported_calls,
    round(sum(h.unreported_bytes * ifNull(a.tokens_per_byte, 0))) AS about_tokens,
    round(sumOrNullIf({dollars h.}, known > 0 AND h.n > h.unreported), 4) AS reported_usd,
    round(sumOrNullIf(h.unreported_bytes * a.tokens_per_byte * price.3 / 1e6, known > 0 AND h.unreported > 0 AND a.tokens_per_byte > 0), 4) AS at_most_usd,
    arraySort(groupUniqArrayIf(toString(h.model), known = 0)) AS unpriced
FROM
(
    SELECT
        provider,
        model,
        count() AS n,
        uniqExactStateIf(user, user != '') AS user_count,
        uniqExactStateIf(attributes['tenant'], attributes['tenant'] != '') AS tenant_count,
        coalesce(sum(input_tokens), 0) AS input,
        {cache tokens},
        coalesce(sum(output_tokens), 0) AS output,
        countIf(input_tokens IS NULL) AS unreported,
        sumIf(request_bytes, input_tokens IS NULL) AS unreported_bytes
    FROM exchanges FINAL
    WHERE hit
        AND {filter exchanges}
        AND {counted}
    GROUP BY provider, model
) AS h
LEFT JOIN accepted AS a ON a.provider = h.provider AND a.model = h.model
