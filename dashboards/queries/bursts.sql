-- When did calls fail in bursts? Start, end, peak, share, first version and examples of each.
-- group Failures
-- param since = 1 day: from when on
-- param until = : up to when
-- param service = : one service only
-- param stage = : one stage only
-- param cause = : one cause only
-- param window = 5 minutes: failures are counted in windows of this length
-- param min_failed = 5: a window with fewer failures of a cause is no part of a burst
-- param min_percent = 5: nor is one in which they are a smaller share of the calls of the stage
-- Windows with at most one other between them are one burst. Attempts that the SDK repeats by itself and calls that the
-- agent cancelled are not counted.
WITH
    greatest(1, toUInt32(parseTimeDelta({window:String}))) AS seconds,
    windows AS
    (
        SELECT
            service,
            stage,
            cause,
            intDiv(toUnixTimestamp(started_at), seconds) AS w,
            count() AS n,
            min(started_at) AS first_at,
            max(started_at) AS last_at,
            argMinIf(service_version, started_at, cause != '') AS version,
            topKIf(1)(root_cause, root_cause != '')[1] AS root,
            argMinIf(exchange_id, started_at, cause != '') AS example
        FROM exchanges_final
        WHERE started_at >= {since:DateTime64(9, 'UTC')}
            AND started_at < {until:DateTime64(9, 'UTC')}
            AND ({service:String} = '' OR service = {service:String})
            AND ({stage:String} = '' OR stage = {stage:String})
            AND retry = 0
            AND error_type != 'cancelled'
        GROUP BY service, stage, cause, w
    ),
    shares AS
    (
        SELECT *, sum(n) OVER (PARTITION BY service, stage, w) AS calls_in_window
        FROM windows
    ),
    hot AS
    (
        SELECT
            *,
            w - lagInFrame(toInt64(w), 1, toInt64(-3)) OVER
                (PARTITION BY service, stage, cause ORDER BY w ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) > 2 AS begins
        FROM shares
        WHERE cause != ''
            AND ({cause:String} = '' OR cause = {cause:String})
            AND n >= {min_failed:UInt32}
            AND 100 * n >= calls_in_window * {min_percent:Float64}
    ),
    numbered AS
    (
        SELECT *, sum(begins) OVER (PARTITION BY service, stage, cause ORDER BY w) AS number
        FROM hot
    )
SELECT
    service,
    stage,
    cause,
    topKWeightedIf(1)(root, n, root != '')[1] AS main_root_cause,
    min(first_at) AS started,
    max(last_at) AS ended,
    sum(n) AS failed_calls,
    sum(calls_in_window) AS calls,
    round(100 * failed_calls / calls, 1) AS failed_percent,
    max(n) AS peak_failed,
    round(max(100 * n / calls_in_window), 1) AS peak_percent,
    argMin(version, w) AS first_version,
    arraySlice(arrayMap(x -> x.2, arraySort(groupArray((w, example)))), 1, 3) AS examples
FROM numbered
GROUP BY service, stage, cause, number
ORDER BY started DESC, failed_calls DESC, service, stage, cause
LIMIT 100
