-- What exactly is wrong? The newest example of each defect, with the evidence and the fix.
-- group Failures
-- param since = 1 day: from when on
-- param until = : up to when
-- param rule = : one rule or signal only; without it, no signals
-- param service = : one service only
-- param stage = : one stage only
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
WHERE first_seen >= {since:DateTime64(9, 'UTC')}
    AND first_seen < {until:DateTime64(9, 'UTC')}
    AND (rule_id = {rule:String} OR {rule:String} = '' AND severity != 'signal')
    AND ({service:String} = '' OR service = {service:String})
    AND ({stage:String} = '' OR stage = {stage:String})
ORDER BY severity = 'reject' DESC, first_seen DESC, finding_id
LIMIT 1 BY fingerprint
LIMIT 50
