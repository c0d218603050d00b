-- What do failed calls cost? Tokens, money and time, reported and estimated.
-- group Usage and latency
-- since 1 day
-- param cause = : only this cause
-- bound prices: price table of the configuration, as JSON
-- Providers seldom report the usage of a failed call, and most do not charge for a rejected one. Tokens and reported_usd are those
-- of the calls that report usage; NULL: none does. about_tokens and at_most_usd are the input tokens of the other calls, estimated
-- from the tokens per byte of accepted requests to the same model, and their price if they are charged. A cost is NULL for models
-- that are not in the price table. SDK retries are counted separately; they are in tokens, money and time.
WITH
    refused AS
    (
        SELECT
            service,
            stage,
            provider,
            model,
            cause,
            countIf({counted}) AS n,
            countIf(retry > 0) AS retries,
            countIf(input_tokens IS NULL) AS unreported,
            sum(input_tokens) AS input,
            {cache tokens},
            sum(output_tokens) AS output,
            sumIf(request_bytes, input_tokens IS NULL) AS unreported_bytes,
            sum(duration) AS seconds
        FROM exchanges FINAL
        WHERE failed
            AND {filter exchanges}
            AND ({cause:String} = '' OR cause = {cause:String})
        GROUP BY service, stage, provider, model, cause
    ),
    {accepted},
    {price r.}
SELECT
    r.service AS service,
    r.stage AS stage,
    r.provider AS provider,
    r.model AS model,
    r.cause AS cause,
    r.n AS failed_calls,
    r.retries AS retries,
    r.unreported AS without_usage,
    r.input AS input_tokens,
    r.output AS output_tokens,
    round(if(known = 0, NULL, {dollars r.}), 4) AS reported_usd,
    round(if(a.tokens_per_byte > 0, r.unreported_bytes * a.tokens_per_byte, NULL)) AS about_tokens,
    round(if(known = 0, NULL, about_tokens * price.3 / 1e6), 4) AS at_most_usd,
    round(r.seconds, 1) AS seconds
FROM refused AS r
LEFT JOIN accepted AS a ON a.provider = r.provider AND a.model = r.model
ORDER BY failed_calls DESC, service, stage, provider, model, cause
LIMIT 100
