-- How many calls are there, how many fail, how long do they take, how many tokens do they have and what do they cost, over time?
-- since 1 hour
-- param step = 60: seconds of a bar
-- bound prices: price table of the configuration, as JSON
-- Latencies, tokens and history are those of successful calls; slow and many are 95th percentiles. Calls of a model without a price, and
-- those whose response reports no usage, are in unpriced, and not in cost, which is NULL if there are only such calls.
WITH
    {price},
    priced > 0 AND known > 0 AS has_price
SELECT
    time,
    sum(all_calls) AS calls,
    sum(failed_calls) AS failed,
    quantileMerge(0.5)(duration_50) AS median,
    quantileMerge(0.95)(duration_95) AS slow,
    quantileMerge(0.95)(first_byte_95) AS slow_first_token,
    quantileMerge(0.95)(input_95) AS many_input,
    quantileMerge(0.95)(output_95) AS many_output,
    quantileMerge(0.95)(messages_95) AS many_messages,
    sumOrNullIf({dollars}, has_price) AS cost,
    sum(if(known > 0, all_calls - failed_calls - priced, all_calls - failed_calls)) AS unpriced
FROM
(
    SELECT
        toDateTime(intDiv(toUnixTimestamp(started_at), {step:UInt32}) * {step:UInt32}, 'UTC') AS time,
        provider,
        model,
        countIf({counted}) AS all_calls,
        countIf(failed AND {counted}) AS failed_calls,
        countIf(NOT failed AND input_tokens IS NOT NULL AND {counted}) AS priced,
        coalesce(sum(input_tokens), 0) AS input,
        {cache tokens},
        coalesce(sum(output_tokens), 0) AS output,
        quantileStateIf(0.5)(duration, NOT failed AND {counted}) AS duration_50,
        quantileStateIf(0.95)(duration, NOT failed AND {counted}) AS duration_95,
        quantileStateIf(0.95)(first_byte, NOT failed AND stream AND first_byte > 0 AND {counted}) AS first_byte_95,
        quantileStateIf(0.95)(assumeNotNull(input_tokens), NOT failed AND input_tokens > 0 AND {counted}) AS input_95,
        quantileStateIf(0.95)(assumeNotNull(output_tokens), NOT failed AND output_tokens > 0 AND {counted}) AS output_95,
        quantileStateIf(0.95)(messages, NOT failed AND {counted}) AS messages_95
    FROM exchanges FINAL
    WHERE {filter exchanges}
    GROUP BY time, provider, model
)
GROUP BY time
ORDER BY time
LIMIT 20000
