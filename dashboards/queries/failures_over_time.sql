-- How did the failure rate of each stage change over time?
-- group Failures
-- param since = 1 day: from when on
-- param until = : up to when
-- param service = : one service only
-- param stage = : one stage only
-- param cause = : count failures of one cause only
-- param step = auto: length of a step, such as 5 minutes; auto: at most 30 steps
-- Attempts that the SDK repeats by itself and calls that the agent cancelled are not counted.
WITH
    dateDiff('second', {since:DateTime64(9, 'UTC')}, least({until:DateTime64(9, 'UTC')}, now64(9, 'UTC'))) AS span,
    arrayFirst(s -> s * 30 >= span, [60, 300, 900, 3600, 10800, 21600, 43200, 86400, 604800, 31536000]) AS auto_step,
    greatest(1, if({step:String} = 'auto', auto_step, toUInt32(parseTimeDelta(replaceOne({step:String}, 'auto', '1s'))))) AS seconds
SELECT
    service,
    stage,
    toDateTime(intDiv(toUnixTimestamp(started_at), seconds) * seconds, 'UTC') AS time,
    count() AS calls,
    countIf(failed AND ({cause:String} = '' OR cause = {cause:String})) AS failed_calls,
    round(100 * failed_calls / calls, 1) AS failed_percent,
    topKIf(1)(cause, failed AND ({cause:String} = '' OR cause = {cause:String}))[1] AS main_cause
FROM exchanges_final
WHERE started_at >= {since:DateTime64(9, 'UTC')}
    AND started_at < {until:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR service = {service:String})
    AND ({stage:String} = '' OR stage = {stage:String})
    AND retry = 0
    AND error_type != 'cancelled'
GROUP BY service, stage, time
ORDER BY service, stage, time
LIMIT 1000
