-- What exactly is wrong? The newest example of each defect, with evidence and fix.
-- group Failures
-- param since = 1 day: start of the time range
-- param until = : end of the time range
-- param rule = : only this rule or signal; without it, signals are omitted
-- param service = : only this service
-- param stage = : only this stage
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
