-- Which stages fail, how often, and in which version?
-- param since = 1 hour: how far back to look
-- Attempts that the SDK repeats by itself are counted apart, and so are calls that the agent cancelled.
SELECT
    service,
    stage,
    service_version,
    countIf(retry = 0 AND error_type != 'cancelled') AS calls,
    countIf(failed AND retry = 0 AND error_type != 'cancelled') AS failed_calls,
    round(100 * failed_calls / greatest(calls, 1), 1) AS failed_percent,
    countIf(retry > 0) AS retries,
    countIf(retry = 0 AND error_type = 'cancelled') AS cancelled_calls,
    topKIf(1)(cause, failed)[1] AS main_cause,
    topKIf(1)(root_cause, failed AND root_cause != '')[1] AS main_root_cause,
    maxIf(started_at, failed) AS last_failure
FROM exchanges_final
WHERE started_at > now() - toIntervalSecond(toUInt32(parseTimeDelta({since:String})))
GROUP BY service, stage, service_version
ORDER BY failed_percent DESC, failed_calls DESC, service, stage, service_version
LIMIT 100
