-- What exactly is wrong? The newest example of each defect, with evidence and fix.
-- group Failures
-- since 1 day
-- param rule = : only this rule or signal; without it, signals are omitted
-- Texts are read by the keys of the examples only.
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
FROM findings FINAL
WHERE (conversation_id, finding_id) IN
    (
        SELECT conversation_id, finding_id
        FROM findings FINAL
        WHERE {filter findings}
            AND (rule_id = {rule:String} OR {rule:String} = '' AND severity != 'signal')
        ORDER BY severity = 'reject' DESC, first_seen DESC, finding_id
        LIMIT 1 BY fingerprint
        LIMIT {limit:UInt32}
    )
ORDER BY severity = 'reject' DESC, first_seen DESC, finding_id
LIMIT 50
