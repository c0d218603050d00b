-- Which calls were made?
-- group Calls
-- since 1 hour
-- param sort = time | seconds | tokens | cost | messages: the newest or the most first
-- param cost = 0: only calls that cost this many dollars or more
-- param after = : next of a row, to continue with the row after it
-- bound prices: price table of the configuration, as JSON
-- A cost is NULL if the price of the model or the usage of the call is unknown.
-- The inner statement reads only what it takes to choose the calls.
WITH
    {price c.},
    if(known = 0 OR input_tokens IS NULL, NULL, {dollars}) AS dollars,
    {call key} AS key
SELECT
    started_at,
    service,
    stage,
    service_version,
    model,
    status,
    if(root_cause IN ('', 'unknown_no_history'), {said cause}, toString(root_cause)) AS cause,
    round(nullIf(duration, 0), 3) AS seconds,
    messages,
    input_tokens,
    output_tokens,
    round(dollars, 6) AS cost,
    tool_calls,
    finish_reason,
    environment,
    provider,
    user,
    retry,
    conversation_id,
    exchange_id,
    {next key, exchange_id} AS next
FROM
(
    SELECT
        *,
        {tokens}
    FROM exchanges FINAL
    WHERE {filter exchanges ONLY time}
        AND (toStartOfHour(started_at), service, exchange_id) IN
        (
            WITH
                {model prices},
                if(known = 0 OR c.input_tokens IS NULL, NULL, {model dollars}) AS dollars,
                {call key} AS key
            SELECT toStartOfHour(started_at), service, exchange_id
            FROM {chosen calls}
            WHERE {later key, exchange_id}
                AND if({cost:Float64} <= 0, true, dollars >= {cost:Float64})
            ORDER BY key DESC, exchange_id DESC
            LIMIT {limit:UInt32}
        )
) AS c
ORDER BY key DESC, exchange_id DESC
LIMIT 50
