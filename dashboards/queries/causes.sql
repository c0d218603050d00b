-- Why do calls fail? Causes of each stage with their root causes, and the versions that show them.
-- group Failures
-- since 1 hour
-- param cause = : only this cause
-- SDK retries are counted separately, and calls cancelled by the agent are not counted. known counts how the cause of the failed calls
-- is known: stated by the answer, inferred from the request, both, guessed from the words of the answer or its status, conflict, none.
SELECT
    service,
    stage,
    cause,
    sumMapIf(map(toString(cause_known), toUInt64(1)), {counted}) AS known,
    root_cause,
    countIf({counted}) AS failed_calls,
    {percent failed_calls of sum(failed_calls) OVER ()} AS percent_of_failed,
    countIf(retry > 0) AS retries,
    arraySort(groupUniqArray(20)(service_version)) AS versions,
    min(started_at) AS first_seen,
    max(started_at) AS last_seen,
    arraySort(groupUniqArray(10)(status)) AS statuses,
    argMax(error_text, started_at) AS last_error_text,
    argMax(conversation_id, started_at) AS last_conversation_id
FROM exchanges FINAL
WHERE failed
    AND {filter exchanges}
    AND ({cause:String} = '' OR cause = {cause:String})
GROUP BY service, stage, cause, root_cause
ORDER BY failed_calls DESC, service, stage, cause, root_cause
LIMIT 50
