-- How many calls, failures, tokens and dollars are there by conversation, run, user, or another property?
-- group Calls
-- since 1 hour
-- param by = conversation | run | user | service | stage | version | environment | provider | model | status | cause | tool | attr | attr.KEY | all: what the calls of a group have in common
-- param sort = time | calls | failed | failed_percent | conversations | tokens | input_tokens | cached_tokens | output_tokens | tool_calls | cost | p50 | p95 | first_token | seconds: the newest or the most first
-- param cost = 0: only calls that cost this many dollars or more
-- param after = : next of a row, to continue with the row after it
-- bound prices: price table of the configuration, as JSON
-- Only calls within the time range count. A call that declares several tools, or has several attributes, counts for each. unpriced are calls whose cost is
-- unknown, because the price of the model or the usage of the call is. first_token is the time until it that 95% of the streamed
-- calls do not exceed.
WITH
    {calls by group}
SELECT
    what AS group,
    anyLast(toString(service)) AS of_service,
    topKIf(1)(toString(stage), {counted})[1] AS of_stage,
    {measures},
    max(messages) AS longest,
    min(started_at) AS first_call,
    max(started_at) AS last_call,
    multiIf(
        {sort:String} = 'calls', toInt64(calls),
        {sort:String} = 'failed', toInt64(failed_calls),
        {sort:String} = 'failed_percent', toInt64(ifNull(failed_percent, 0) * 10),
        {sort:String} = 'conversations', toInt64(conversations),
        {sort:String} = 'tokens', toInt64(sum(input) + sum(output)),
        {sort:String} = 'input_tokens', toInt64(sum(input)),
        {sort:String} = 'cached_tokens', toInt64(sum(cached)),
        {sort:String} = 'output_tokens', toInt64(sum(output)),
        {sort:String} = 'tool_calls', toInt64(sum(c.tool_calls)),
        {sort:String} = 'cost', toInt64(cost * 1e9),
        {sort:String} = 'p50', toInt64(ifNull(p50, 0) * 1e6),
        {sort:String} = 'p95', toInt64(ifNull(p95, 0) * 1e6),
        {sort:String} = 'first_token', toInt64(ifNull(first_token, 0) * 1e6),
        {sort:String} = 'seconds', toInt64(seconds * 1e6),
        toUnixTimestamp64Nano(last_call)) AS key,
    {next key, group} AS next
FROM {priced calls}
WHERE what != ''
    AND ({cost:Float64} <= 0 OR NOT no_price AND {dollars} >= {cost:Float64})
GROUP BY group
HAVING {later key, group}
ORDER BY key DESC, group DESC
LIMIT 50
