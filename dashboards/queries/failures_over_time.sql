-- How did the failure rate of each stage change over time?
-- group Failures
-- since 1 day
-- param cause = : count only failures with this cause
-- param step = auto: length of a step, such as 5 minutes; auto: at most 30 steps
-- SDK retries and calls cancelled by the agent are not counted.
WITH
    {step},
    failed AND {filter exchanges ONLY status} AND ({cause:String} = '' OR cause = {cause:String}) AS hit
SELECT
    service,
    stage,
    toDateTime(intDiv(toUnixTimestamp(started_at), step_seconds) * step_seconds, 'UTC') AS time,
    count() AS calls,
    countIf(hit) AS failed_calls,
    {percent failed_calls of calls} AS failed_percent,
    topKIf(1)({said cause}, hit)[1] AS main_cause
FROM exchanges FINAL
WHERE {filter exchanges EXCEPT status}
    AND {counted}
GROUP BY service, stage, time
ORDER BY service, stage, time
LIMIT 1000
