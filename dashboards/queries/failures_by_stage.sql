-- Which stages fail, how often, and in which version?
-- group Failures
-- param since = 1 hour: start of the time range
-- param until = : end of the time range
-- param service = : only this service
-- param stage = : only this stage
-- param cause = : count only failures with this cause
-- SDK retries and calls cancelled by the agent are counted separately.
SELECT
    service,
    stage,
    service_version,
    countIf(retry = 0 AND error_type != 'cancelled') AS calls,
    countIf(failed AND retry = 0 AND error_type != 'cancelled' AND ({cause:String} = '' OR cause = {cause:String})) AS failed_calls,
    round(100 * failed_calls / greatest(calls, 1), 1) AS failed_percent,
    countIf(retry > 0) AS retries,
    countIf(retry = 0 AND error_type = 'cancelled') AS cancelled_calls,
    topKIf(1)(cause, failed AND ({cause:String} = '' OR cause = {cause:String}))[1] AS main_cause,
    topKIf(1)(root_cause, failed AND root_cause != '' AND ({cause:String} = '' OR cause = {cause:String}))[1] AS main_root_cause,
    maxOrNullIf(started_at, failed AND ({cause:String} = '' OR cause = {cause:String})) AS last_failure
FROM exchanges_final
WHERE started_at >= {since:DateTime64(9, 'UTC')}
    AND started_at < {until:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR service = {service:String})
    AND ({stage:String} = '' OR stage = {stage:String})
GROUP BY service, stage, service_version
ORDER BY failed_percent DESC, failed_calls DESC, service, stage, service_version
LIMIT 100
