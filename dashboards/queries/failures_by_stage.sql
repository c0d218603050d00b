-- Which stages fail, how often, and in which version?
-- group Failures
-- since 1 hour
-- param cause = : count only failures with this cause
-- SDK retries and calls cancelled by the agent are counted separately.
WITH failed AND {filter exchanges ONLY status} AND ({cause:String} = '' OR cause = {cause:String}) AS hit
SELECT
    service,
    stage,
    service_version,
    countIf({counted}) AS calls,
    countIf(hit AND {counted}) AS failed_calls,
    {percent failed_calls of calls} AS failed_percent,
    countIf(retry > 0) AS retries,
    countIf(retry = 0 AND error_type = 'cancelled') AS cancelled_calls,
    topKIf(1)({said cause}, hit)[1] AS main_cause,
    topKIf(1)(root_cause, hit AND root_cause != '')[1] AS main_root_cause,
    maxOrNullIf(started_at, hit) AS last_failure
FROM exchanges FINAL
WHERE {filter exchanges EXCEPT status}
GROUP BY service, stage, service_version
ORDER BY failed_calls / greatest(calls, 1) DESC, failed_calls DESC, service, stage, service_version
LIMIT 100
