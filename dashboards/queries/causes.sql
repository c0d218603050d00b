-- Why do calls fail? Causes with their root causes, and the versions that show them.
-- group Failures
-- param since = 1 hour: start of the time range
-- param until = : end of the time range
-- param service = : only this service
-- param stage = : only this stage
-- param cause = : only this cause
SELECT
    cause,
    root_cause,
    count() AS failed_calls,
    round(100 * failed_calls / sum(failed_calls) OVER (), 1) AS percent_of_failed,
    countIf(retry > 0) AS retries,
    arraySort(groupUniqArray(20)(concat(service, '/', stage))) AS stages,
    arraySort(groupUniqArray(20)(service_version)) AS versions,
    min(started_at) AS first_seen,
    max(started_at) AS last_seen,
    arraySort(groupUniqArray(10)(status)) AS statuses,
    argMax(error_text, started_at) AS last_error_text,
    argMax(conversation_id, started_at) AS last_conversation_id
FROM exchanges_final
WHERE failed
    AND started_at >= {since:DateTime64(9, 'UTC')}
    AND started_at < {until:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR service = {service:String})
    AND ({stage:String} = '' OR stage = {stage:String})
    AND ({cause:String} = '' OR cause = {cause:String})
GROUP BY cause, root_cause
ORDER BY failed_calls DESC, cause, root_cause
LIMIT 50
