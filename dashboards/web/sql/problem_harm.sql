-- How many users and tenants does a problem hit, and how many tokens do its calls take?
-- since 1 hour
-- param why = : only failures with this cause or root cause
-- param rules = : calls with findings of these rules or root causes, separated by commas, instead of failed calls
-- Providers seldom report the usage of a failed call. about_tokens are the input tokens of the calls without one, estimated from the
-- tokens per byte of accepted requests to the same model.
WITH
    {hit},
    {accepted}
SELECT
    sum(h.n) AS calls,
    uniqExactMerge(h.user_count) AS users,
    uniqExactMerge(h.tenant_count) AS tenants,
    sum(h.input) AS input_tokens,
    sum(h.output) AS output_tokens,
    sum(h.unreported) AS unreported_calls,
    round(sum(h.unreported_bytes * ifNull(a.tokens_per_byte, 0))) AS about_tokens
FROM
(
    SELECT
        provider,
        model,
        count() AS n,
        uniqExactStateIf(user, user != '') AS user_count,
        uniqExactStateIf(attributes['tenant'], attributes['tenant'] != '') AS tenant_count,
        coalesce(sum(input_tokens), 0) AS input,
        coalesce(sum(output_tokens), 0) AS output,
        countIf(input_tokens IS NULL) AS unreported,
        sumIf(request_bytes, input_tokens IS NULL) AS unreported_bytes
    FROM exchanges_final
    WHERE hit
        AND {filter exchanges}
        AND {counted}
    GROUP BY provider, model
) AS h
LEFT JOIN accepted AS a ON a.provider = h.provider AND a.model = h.model
