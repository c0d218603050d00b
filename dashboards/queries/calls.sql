-- Which calls were made?
-- group Calls
-- since 1 hour
-- param sort = time | seconds | tokens | cost | messages: the newest or the most first
-- param cost = 0: only calls that cost this many dollars or more
-- param after = : next of a row, to continue with the row after it
-- bound prices: price table of the configuration, as JSON
-- A cost is NULL if the price of the model or the usage of the call is unknown.
WITH
    if(known = 0 OR input_tokens IS NULL, NULL, {dollars}) AS dollars,
    multiIf(
        {sort:String} = 'seconds', toInt64(duration * 1e6),
        {sort:String} = 'tokens', input + output,
        {sort:String} = 'cost', toInt64(ifNull(dollars, 0) * 1e9),
        {sort:String} = 'messages', toInt64(messages),
        toUnixTimestamp64Nano(started_at)) AS key
SELECT
    started_at,
    service,
    stage,
    service_version,
    c.model AS model,
    status,
    if(root_cause IN ('', 'unknown_no_history'), cause, root_cause) AS cause,
    round(duration, 3) AS seconds,
    messages,
    input_tokens,
    output_tokens,
    round(dollars, 6) AS cost,
    tool_calls,
    finish_reason,
    environment,
    c.provider AS provider,
    user,
    retry,
    conversation_id,
    exchange_id,
    {next key, exchange_id} AS next
FROM {priced calls}
WHERE {later key, exchange_id}
    AND ({cost:Float64} <= 0 OR dollars >= {cost:Float64})
ORDER BY key DESC, exchange_id DESC
LIMIT 50
