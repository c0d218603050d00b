-- How did the failure rate of each stage change over time?
-- group Failures
-- since 1 day
-- param cause = : count only failures with this cause
-- param step = auto: length of a step, such as 5 minutes; auto: at most 30 steps
-- SDK retries and calls cancelled by the agent are not counted.
WITH
    dateDiff('second', {since:DateTime64(9, 'UTC')}, least({until:DateTime64(9, 'UTC')}, now64(9, 'UTC'))) AS span,
    arrayFirst(s -> s * 30 >= span, [60, 300, 900, 3600, 10800, 21600, 43200, 86400, 604800, 31536000]) AS auto_step,
    greatest(1, if({step:String} = 'auto', auto_step, toUInt32(parseTimeDelta(replaceOne({step:String}, 'auto', '1s'))))) AS seconds,
    failed AND {filter exchanges ONLY status} AND ({cause:String} = '' OR cause = {cause:String}) AS hit
SELECT
    service,
    stage,
    toDateTime(intDiv(toUnixTimestamp(started_at), seconds) * seconds, 'UTC') AS time,
    count() AS calls,
    countIf(hit) AS failed_calls,
    {percent failed_calls of calls} AS failed_percent,
    topKIf(1)(cause, hit)[1] AS main_cause
FROM exchanges_final
WHERE {filter exchanges EXCEPT status}
    AND {counted}
GROUP BY service, stage, time
ORDER BY service, stage, time
LIMIT 1000
