-- How many calls, failures, tokens and dollars are there by conversation, run, user, or another property?
-- group Calls
-- since 1 hour
-- param by = conversation: conversation, run, user, service, stage, version, environment, provider, model, status, cause, tool, hour, day, attr for all attributes, or attr.KEY for one
-- param sort = time: time, calls, failed, seconds, tokens or cost; the newest or the most first
-- param cost = 0: only calls that cost this many dollars or more
-- param after = : next of a row, to continue with the row after it
-- bound prices: price table of the configuration, as JSON
-- Only calls within the time range count. A call that declares several tools, or has several attributes, counts for each. unpriced are calls whose cost is
-- unknown, because the price of the model or the usage of the call is.
WITH
    known = 0 OR c.input_tokens IS NULL AS no_price,
    [multiIf(
        {by:String} = 'conversation', conversation_id,
        {by:String} = 'run', run_id,
        {by:String} = 'user', user,
        {by:String} = 'service', toString(service),
        {by:String} = 'stage', concat(toString(service), '/', toString(stage)),
        {by:String} = 'version', concat(toString(service), ' ', toString(service_version)),
        {by:String} = 'environment', toString(environment),
        {by:String} = 'provider', toString(c.provider),
        {by:String} = 'model', toString(c.model),
        {by:String} = 'status', toString(status),
        {by:String} = 'cause', if(failed, {reason}, ''),
        {by:String} = 'hour', toString(toStartOfHour(started_at)),
        {by:String} = 'day', toString(toDate(started_at)),
        startsWith({by:String}, 'attr.'), attributes[substring({by:String}, 6)],
        '')] AS one,
    arrayJoin(multiIf(
        {by:String} = 'tool', arrayMap(t -> toString(t), tools),
        {by:String} = 'attr', arrayMap((k, v) -> concat(k, '=', v), mapKeys(attributes), mapValues(attributes)),
        one)) AS what
SELECT
    what AS group,
    anyLast(toString(service)) AS of_service,
    topKIf(1)(toString(stage), {counted})[1] AS of_stage,
    countIf({counted}) AS calls,
    countIf(failed AND {counted}) AS failed_calls,
    topKIf(1)({reason}, failed AND {counted})[1] AS main_reason,
    uniqExactIf(conversation_id, conversation_id != '') AS conversations,
    sum(input) AS input_tokens,
    sum(output) AS output_tokens,
    round(sumIf({dollars}, NOT no_price), 6) AS cost,
    countIf({counted} AND no_price) AS unpriced,
    {latency 0.95} AS p95,
    round(sum(duration), 3) AS seconds,
    max(messages) AS longest,
    min(started_at) AS first_call,
    max(started_at) AS last_call,
    multiIf(
        {sort:String} = 'calls', toInt64(calls),
        {sort:String} = 'failed', toInt64(failed_calls),
        {sort:String} = 'seconds', toInt64(seconds * 1e6),
        {sort:String} = 'tokens', toInt64(sum(input) + sum(output)),
        {sort:String} = 'cost', toInt64(cost * 1e9),
        toUnixTimestamp64Nano(last_call)) AS key,
    {next key, group} AS next
FROM
(
    SELECT
        *,
        {tokens}
    FROM exchanges_final
    WHERE {filter calls}
) AS c
LEFT JOIN {model prices} AS p ON p.provider = c.provider AND p.model = c.model
WHERE what != ''
    AND ({cost:Float64} <= 0 OR NOT no_price AND {dollars} >= {cost:Float64})
GROUP BY group
HAVING {later key, group}
ORDER BY key DESC, group DESC
LIMIT 50
