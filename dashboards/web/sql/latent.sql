-- Which accepted requests would another provider reject, or this one if it enforced its documentation?
-- since 1 hour
SELECT
    target,
    toBool(target = accepted_by) AS own_target,
    detail AS rule,
    provider,
    model,
    service,
    stage,
    count() AS violations,
    uniqExact(conversation_id) AS conversations,
    arraySort(groupUniqArray(10)(toString(exchange_version))) AS versions,
    max(first_seen) AS last_seen,
    argMax(conversation_id, first_seen) AS example,
    any(fix) AS what_to_change
FROM
(
    SELECT *, arrayJoin(rejected_by) AS target, concat(dialect, '/', variant) AS accepted_by
    FROM findings FINAL
    WHERE rule_id = 'latent_violation'
        AND {filter findings}
)
GROUP BY target, own_target, rule, provider, model, service, stage
ORDER BY own_target DESC, violations DESC, target, rule, service, stage, provider, model
LIMIT 200
