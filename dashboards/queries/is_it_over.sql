-- Is it over? For each cause: the last failure, the calls since, and each version.
-- group Failures
-- since 1 day
-- param cause = : only this cause
-- Expected failures: the calls since the last failure times the share of calls that failed between the first and the last
-- failure. Fewer than 3 prove nothing. SDK retries and calls cancelled by the agent are not counted.
WITH
    least({until:DateTime64(9, 'UTC')}, now64(9, 'UTC')) AS at_end,
    greatest(300, intDiv(dateDiff('second', {since:DateTime64(9, 'UTC')}, at_end), 1000)) AS step_seconds,
    failures AS
    (
        SELECT
            service,
            stage,
            cause,
            service_version,
            count() AS n,
            min(started_at) AS first_at,
            max(started_at) AS last_at,
            countIf(started_at >= at_end - INTERVAL 5 MINUTE) AS n5,
            countIf(started_at >= at_end - INTERVAL 15 MINUTE) AS n15,
            countIf(started_at >= at_end - INTERVAL 60 MINUTE) AS n60
        FROM exchanges FINAL
        WHERE failed
            AND {filter exchanges}
            AND ({cause:String} = '' OR cause = {cause:String})
            AND {counted}
        GROUP BY service, stage, cause, service_version
    ),
    (
        SELECT groupArray((service, stage, cause, failed_calls, first_failure, last_failure, failed_5m, failed_15m, failed_60m, last_by_version))
        FROM
        (
            SELECT
                service,
                stage,
                cause,
                sum(n) AS failed_calls,
                min(first_at) AS first_failure,
                max(last_at) AS last_failure,
                sum(n5) AS failed_5m,
                sum(n15) AS failed_15m,
                sum(n60) AS failed_60m,
                mapFromArrays(groupArray(toString(service_version)), groupArray(last_at)) AS last_by_version
            FROM failures
            GROUP BY service, stage, cause
        )
    ) AS all_causes,
    causes AS
    (
        SELECT
            arrayJoin(all_causes) AS c,
            c.1 AS service,
            c.2 AS stage,
            c.3 AS cause,
            c.4 AS failed_calls,
            c.5 AS first_failure,
            c.6 AS last_failure,
            c.7 AS failed_5m,
            c.8 AS failed_15m,
            c.9 AS failed_60m,
            c.10 AS last_by_version
    ),
    -- The calls of a version in five minutes, or a thousandth of the time range if it is longer. Individual times are compared only in intervals with the first or the last failure of
    -- a cause or a version; elsewhere they would be copied for each cause.
    edges AS
    (
        SELECT DISTINCT service, stage, intDiv(toUnixTimestamp(arrayJoin(arrayConcat([first_failure, last_failure], mapValues(last_by_version)))), step_seconds) AS step
        FROM causes
    ),
    buckets AS
    (
        SELECT service, stage, toString(service_version) AS version, n, begin, end, if((service, stage, step) IN (SELECT service, stage, step FROM edges), all_times, []) AS times
        FROM
        (
            SELECT service, stage, service_version, intDiv(toUnixTimestamp(started_at), step_seconds) AS step, count() AS n, min(started_at) AS begin, max(started_at) AS end,
                groupArray(started_at) AS all_times
            FROM exchanges FINAL
            WHERE {filter exchanges EXCEPT status}
                AND {counted}
            GROUP BY service, stage, service_version, step
        )
    ),
    (at, begin, end, n, times) -> multiIf(begin > at, n, end <= at, 0, arrayCount(t -> t > at, times)) AS calls_after,
    per_version AS
    (
        SELECT
            c.service AS service,
            c.stage AS stage,
            f.cause AS cause,
            c.version AS version,
            any(f.failed_calls) AS failed_calls,
            any(f.last_failure) AS last_failure,
            any(f.failed_5m) AS failed_5m,
            any(f.failed_15m) AS failed_15m,
            any(f.failed_60m) AS failed_60m,
            any(mapContains(f.last_by_version, c.version)) AS has_failed,
            sum(calls_after(f.last_failure, c.begin, c.end, c.n, c.times)) AS since_last,
            sum(calls_after(f.first_failure - INTERVAL 1 NANOSECOND, c.begin, c.end, c.n, c.times)) - since_last AS during,
            sum(calls_after(greatest(f.first_failure - INTERVAL 1 NANOSECOND, f.last_by_version[c.version]), c.begin, c.end, c.n, c.times)) AS since_own,
            max(c.end) AS newest
        FROM buckets AS c
        INNER JOIN causes AS f ON f.service = c.service AND f.stage = c.stage
        WHERE c.end >= f.first_failure
        GROUP BY service, stage, cause, version
    ),
    dateDiff('second', last_failure, at_end) AS quiet,
    multiIf(quiet < 120, concat(toString(quiet), ' s'), quiet < 7200, concat(toString(intDiv(quiet, 60)), ' min'),
        concat(toString(intDiv(quiet, 3600)), ' h')) AS for_how_long,
    concat(toString(calls_since), if(calls_since = 1, ' call', ' calls')) AS calls_text
SELECT
    multiIf(
        calls_since = 0 AND quiet < 300, 'ongoing',
        calls_since = 0, concat('no calls for ', for_how_long),
        quiet < 300, concat('ongoing: ', toString(failed_5m), ' in the last 5 min'),
        expected_failures < 3, concat('too early to say: none for ', for_how_long, ' in ', calls_text),
        concat('none for ', for_how_long, ' in ', calls_text)) AS verdict,
    service,
    stage,
    cause,
    any(p.last_failure) AS last_failure,
    sum(since_last) AS calls_since,
    round(calls_since * any(p.failed_calls) / greatest(1, sum(during)), 1) AS expected_failures,
    any(p.failed_5m) AS failed_5m,
    any(p.failed_15m) AS failed_15m,
    any(p.failed_60m) AS failed_60m,
    arrayMap(v -> v.2, arrayReverseSort(groupArray((newest, concat(if(version = '', '(no version)', version), ': ', multiIf(
        NOT has_failed, concat('never in ', toString(since_own), if(since_own = 1, ' call', ' calls')),
        since_own = 0, 'its last call failed',
        concat('none in the last ', toString(since_own), if(since_own = 1, ' call', ' calls')))))))) AS versions
FROM per_version AS p
GROUP BY service, stage, cause
ORDER BY last_failure DESC, service, stage, cause
LIMIT 50
