-- Which providers now reject what they accepted from the same version before?
-- group Providers
-- param since = 30 days: start of the time range
-- param until = : end of the time range
-- param service = : only this service
-- param stage = : only this stage
-- param provider = : only this provider
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
FROM findings_final
WHERE rule_id = 'provider_tightened'
    AND first_seen >= {since:DateTime64(9, 'UTC')}
    AND first_seen < {until:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR service = {service:String})
    AND ({stage:String} = '' OR stage = {stage:String})
    AND ({provider:String} = '' OR provider = {provider:String})
ORDER BY first_seen DESC, finding_id
LIMIT 100
