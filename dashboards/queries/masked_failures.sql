-- Which failures remained unnoticed: runs reported as ok, or conversations that just ended, although the last call failed?
-- group Failures
-- since 1 day
-- param cause = : only this cause
-- masked_failure: the agent reported a successful run. conversation_ended_on_error: the agent sends no run events, and no call
-- followed the failed one.
SELECT
    rule_id AS signal,
    service,
    stage,
    detail AS cause,
    status,
    count() AS failures,
    uniqExact(conversation_id) AS conversations,
    arraySort(groupUniqArray(20)(exchange_version)) AS versions,
    min(first_seen) AS first_seen_at,
    max(first_seen) AS last_seen_at,
    argMax(run_id, first_seen) AS last_run_id,
    argMax(conversation_id, first_seen) AS last_conversation_id,
    argMax(exchange_id, first_seen) AS last_exchange_id
FROM findings FINAL
WHERE rule_id IN ('masked_failure', 'conversation_ended_on_error')
    AND {filter findings}
    AND ({cause:String} = '' OR detail = {cause:String})
GROUP BY signal, service, stage, cause, status
ORDER BY failures DESC, signal, service, stage, cause, status
LIMIT 100
