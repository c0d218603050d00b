-- What exactly is wrong? The newest example of each defect, with the evidence and the fix.
-- param since = 1 day: how far back to look
-- param rule_id = : one rule or signal only; without it, no signals
-- param service = : one service only
SELECT
    rule_id,
    severity,
    service,
    service_version,
    stage,
    summary,
    root_cause,
    confidence,
    evidence,
    fix,
    message_index,
    tool_name,
    tool_call_id,
    first_seen,
    conversation_id,
    exchange_id
FROM findings_final
WHERE first_seen > now() - toIntervalSecond(toUInt32(parseTimeDelta({since:String})))
    AND (rule_id = {rule_id:String} OR {rule_id:String} = '' AND severity != 'signal')
    AND ({service:String} = '' OR service = {service:String})
ORDER BY severity = 'reject' DESC, first_seen DESC, finding_id
LIMIT 1 BY fingerprint
LIMIT 50
