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
-- calls do not exceed. The inner statement reads only what it takes to choose the groups,
-- where there may be many.
WITH
    {calls by group},
    (
        SELECT groupArray(group)
        FROM
        (
            WITH
                {calls by group},
                {measures},
                {group key} AS key
            SELECT what AS group
            FROM {chosen calls}
            WHERE what != ''
                AND if({cost:Float64} <= 0, true, NOT no_price AND {model dollars} >= {cost:Float64})
            GROUP BY group
            HAVING {later key, group}
            ORDER BY key DESC, group DESC
            LIMIT {limit:UInt32}
        )
    ) AS groups,
    {group key} AS key
SELECT
    what AS group,
    anyLast(toString(service)) AS of_service,
    topKIf(1)(toString(stage), {counted})[1] AS of_stage,
    {measures},
    max(messages) AS longest,
    min(started_at) AS first_call,
    max(started_at) AS last_call,
    {next key, group} AS next
FROM {chosen calls OF GROUPS}
WHERE what != ''
    AND if({by:String} IN ('service', 'stage', 'version', 'environment', 'provider', 'model', 'status', 'cause', 'all'), true, what IN (SELECT arrayJoin(groups)))
    AND if({cost:Float64} <= 0, true, NOT no_price AND {model dollars} >= {cost:Float64})
GROUP BY group
HAVING {later key, group}
ORDER BY key DESC, group DESC
LIMIT 50
