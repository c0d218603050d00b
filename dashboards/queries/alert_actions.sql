-- Who acknowledged or silenced alerts, and when?
-- group Failures
-- since 7 days
SELECT
    at,
    action,
    refused,
    if(actor_name = '', actor, actor_name) AS who,
    via,
    name,
    service,
    group_key,
    matchers,
    ends_at,
    comment,
    silence_id
FROM alert_actions FINAL
WHERE {filter alert_actions}
ORDER BY at DESC
LIMIT 100
