-- How much happens, how much of it fails, what does it cost, and how long does it take?
-- since 1 hour
-- bound prices: price table of the configuration, as JSON
WITH
    {price}
SELECT
    sum(all_calls) AS calls,
    sum(failed_calls) AS failed,
    sum(input) AS input_tokens,
    sum(output) AS output_tokens,
    sum(if(known = 0, 0, {dollars})) AS cost,
    sumIf(all_calls, known = 0) AS unpriced,
    quantileMerge(0.5)(p50) AS median,
    quantileMerge(0.95)(p95) AS slow,
    uniqMerge(conversation_count) AS conversations
FROM
(
    SELECT
        provider,
        model,
        countIf({counted}) AS all_calls,
        countIf(failed AND {counted}) AS failed_calls,
        coalesce(sum(input_tokens), 0) AS input,
        {cache tokens},
        coalesce(sum(output_tokens), 0) AS output,
        quantileStateIf(0.5)(duration, NOT failed AND {counted}) AS p50,
        quantileStateIf(0.95)(duration, NOT failed AND {counted}) AS p95,
        uniqStateIf(conversation_id, conversation_id != '') AS conversation_count
    FROM exchanges FINAL
    WHERE {filter exchanges}
    GROUP BY provider, model
)
