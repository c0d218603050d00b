-- When did calls fail in bursts? Start, end, peak, share, first version and examples of each burst.
-- group Failures
-- since 1 day
-- param cause = : only this cause
-- param window = 5 minutes: length of the windows in which failures are counted
-- param min_failed = 5: minimum number of failures of a cause in a window of a burst
-- param min_percent = 5: minimum percentage of those failures among the calls of the stage in the window
-- A filter by status selects the failures that count. Windows with at most one other window between them form one burst; its root cause is the most frequent one at its peak. SDK
-- retries and calls cancelled by the agent are not counted.
WITH
    greatest(1, toUInt32(parseTimeDelta({window:String}))) AS seconds,
    windows AS
    (
        SELECT
            service,
            stage,
            if({filter exchanges ONLY status}, cause, '') AS cause,
            intDiv(toUnixTimestamp(started_at), seconds) AS w,
            count() AS n,
            min(started_at) AS first_at,
            max(started_at) AS last_at,
            argMinIf(service_version, started_at, cause != '') AS version,
            anyHeavyIf(root_cause, cause != '') AS root,
            argMinIf(exchange_id, started_at, cause != '') AS example
        FROM exchanges FINAL
        WHERE {filter exchanges EXCEPT status}
            AND {counted}
        GROUP BY service, stage, cause, w
    ),
    hot AS
    (
        SELECT
            service,
            stage,
            w,
            sum(n) AS calls,
            groupArrayIf((toString(cause), n, first_at, last_at, toString(version), toString(root), example), cause != '' AND n >= {min_failed:UInt32}
                AND ({cause:String} = '' OR cause = {cause:String})) AS failing
        FROM windows
        GROUP BY service, stage, w
        HAVING notEmpty(failing)
    ),
    series AS
    (
        SELECT
            service,
            stage,
            failure.1 AS cause,
            arraySort(groupArray((toInt64(w), failure.2, calls, failure.3, failure.4, failure.5, failure.6, failure.7))) AS all
        FROM hot
        ARRAY JOIN failing AS failure
        WHERE 100 * failure.2 >= calls * {min_percent:Float64}
        GROUP BY service, stage, cause
    ),
    arrayReverseSort(x -> x.2 / x.3, burst)[1] AS peak
SELECT
    service,
    stage,
    cause,
    arrayReverseSort(x -> x.2, burst)[1].7 AS main_root_cause,
    burst[1].4 AS started,
    arrayMax(x -> x.5, burst) AS ended,
    arraySum(x -> x.2, burst) AS failed_calls,
    arraySum(x -> x.3, burst) AS calls,
    {percent failed_calls of calls} AS failed_percent,
    arrayMax(x -> x.2, burst) AS peak_failed,
    {percent peak.2 of peak.3} AS peak_percent,
    burst[1].6 AS first_version,
    arrayMap(x -> x.8, arraySlice(burst, 1, 3)) AS examples
FROM series
ARRAY JOIN arraySplit((x, i) -> i > 1 AND x.1 - all[i - 1].1 > 2, all, arrayEnumerate(all)) AS burst
ORDER BY started DESC, failed_calls DESC, service, stage, cause
LIMIT 100
