-- How do calls, failures, latency, tokens and dollars change over time, by stage, model, or another property?
-- group Calls
-- since 1 hour
-- param by = stage | conversation | run | user | service | version | environment | provider | model | status | cause | tool | attr | attr.KEY | all: what the calls of a group have in common
-- param step = auto: length of a step, such as 5 minutes; auto: at most 30 steps
-- param cost = 0: only calls that cost this many dollars or more
-- param groups = : only these groups, as a JSON array of texts
-- bound prices: price table of the configuration, as JSON
-- The columns are those of calls_by. A group without calls in a step has no row of it.
WITH
    {step},
    {calls by group}
SELECT
    what AS group,
    toDateTime(intDiv(toUnixTimestamp(started_at), step_seconds) * step_seconds, 'UTC') AS time,
    {measures}
FROM {chosen calls}
WHERE what != ''
    AND if({cost:Float64} <= 0, true, NOT no_price AND {model dollars} >= {cost:Float64})
    AND if({groups:String} = '', true, has(JSONExtract({groups:String}, 'Array(String)'), what))
GROUP BY group, time
ORDER BY group, time
LIMIT 10000
