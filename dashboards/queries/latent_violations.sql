-- What breaks if we move to another provider, or if this one becomes strict? Accepted requests that others would reject.
-- group Providers
-- since 7 days
-- param target = : only requests that this target would reject: a dialect, a variant, or both as in openai_chat/deepseek
-- If own_target is true, the provider that accepts the request would reject it if it enforced its own documentation.
SELECT
    target,
    toBool(target = accepted_by) AS own_target,
    rule AS rule_id,
    provider,
    model,
    service,
    stage,
    count() AS violations,
    uniqExact(conversation_id) AS conversations,
    arraySort(groupUniqArray(20)(exchange_version)) AS versions,
    min(first_seen) AS first_seen_at,
    max(first_seen) AS last_seen_at,
    any(fix) AS what_to_change
FROM
(
    SELECT
        arrayJoin(rejected_by) AS target,
        concat(dialect, '/', variant) AS accepted_by,
        detail AS rule,
        provider,
        model,
        service,
        stage,
        exchange_version,
        conversation_id,
        first_seen,
        fix
    FROM findings FINAL
    WHERE rule_id = 'latent_violation'
        AND {filter findings}
)
WHERE {target:String} = ''
    OR target = {target:String}
    OR has(splitByChar('/', target), {target:String})
GROUP BY target, own_target, rule_id, provider, model, service, stage
ORDER BY own_target DESC, violations DESC, target, rule_id, service, stage, provider, model
LIMIT 100
