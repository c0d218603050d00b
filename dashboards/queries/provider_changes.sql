-- Which providers now reject what they accepted from the same version before?
-- group Providers
-- since 30 days
-- These findings belong to no conversation.
SELECT
    first_seen AS rejected_since,
    provider,
    model,
    detail AS violation,
    service,
    stage,
    exchange_version AS version,
    evidence,
    fix,
    exchange_id
FROM findings FINAL
WHERE conversation_id = ''
    AND rule_id = 'provider_tightened'
    AND {filter findings}
ORDER BY first_seen DESC, finding_id
LIMIT 100
