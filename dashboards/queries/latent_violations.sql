-- What is accepted today and would be rejected by another provider, or by this one tomorrow?
-- param since = 7 days: how far back to look
SELECT
    rule_id,
    service,
    stage,
    provider,
    model,
    root_cause,
    count() AS findings,
    uniqExact(conversation_id) AS conversations,
    countIf(predicted = 'reject') AS predicted_rejects,
    arraySort(groupUniqArray(20)(service_version)) AS versions,
    min(first_seen) AS first_seen_at,
    max(first_seen) AS last_seen_at,
    any(fix) AS what_to_change
FROM findings_final
WHERE severity = 'lenient'
    AND status BETWEEN 200 AND 299
    AND first_seen > now() - toIntervalSecond(toUInt32(parseTimeDelta({since:String})))
GROUP BY rule_id, service, stage, provider, model, root_cause
ORDER BY predicted_rejects DESC, findings DESC, rule_id, service, stage
LIMIT 100
