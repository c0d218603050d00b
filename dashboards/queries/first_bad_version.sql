-- Whose change? The first version that shows each defect, and the last clean one.
-- group Whose change
-- since 7 days
-- param rule = : only this rule
-- param severity = : only this severity: reject (the call fails), lenient (this provider accepts it) or style
-- The version is that of the first request with the defect, not of a later one that sends the same history again. A version is
-- clean if the same stage made calls with it before the first occurrence of the defect, it never showed the defect, and it made so
-- many calls that at the share of the versions with the defect, it would have shown it with a probability of 95%. The order is
-- that of the stream. A style finding breaks nothing, so no version is bad; versions lists where it was seen.
WITH
    defects AS
    (
        SELECT
            fingerprint,
            any(service) AS bad_service,
            any(stage) AS bad_stage,
            any(rule_id) AS rule,
            any(root_cause) AS root,
            any(tool_name) AS tool,
            multiIf(countIf(severity = 'reject') > 0, 'reject', countIf(severity = 'lenient') > 0, 'lenient', 'style') AS worst,
            argMin(exchange_version, first_seen) AS first_version,
            min(first_seen) AS first_seen_at,
            max(first_seen) AS last_seen_at,
            arraySort(groupUniqArray(100)(exchange_version)) AS versions_with_it,
            count() AS instances,
            uniqExact(exchange_id) AS hits,
            uniqExact(conversation_id) AS conversations
        FROM findings_final
        WHERE {filter findings EXCEPT version}
            AND severity != 'signal'
            AND ({rule:String} = '' OR rule_id = {rule:String})
        GROUP BY fingerprint
        HAVING ({severity:String} = '' OR worst = {severity:String})
            AND countIf({filter findings ONLY version}) > 0
    ),
    calls_by_version AS
    (
        SELECT service, stage, service_version, min(if(origin = 'import', started_at, stored_at)) AS first_call, count() AS calls,
            countIf(NOT failed AND retry = 0) AS clean_calls
        FROM exchanges_final
        WHERE {filter exchanges ONLY time, service, stage, environment}
        GROUP BY service, stage, service_version
    ),
    argMaxIf((v.service_version, v.clean_calls), v.first_call, v.service_version != '' AND v.first_call < d.first_seen_at
        AND NOT has(d.versions_with_it, v.service_version)) AS before,
    sumIf(v.calls, has(d.versions_with_it, v.service_version)) AS calls_with_it
SELECT
    any(d.bad_service) AS service,
    any(d.bad_stage) AS stage,
    any(d.worst) AS severity,
    any(d.rule) AS rule_id,
    any(d.root) AS root_cause,
    any(d.tool) AS tool_name,
    if(severity = 'style', '', any(d.first_version)) AS first_bad,
    if(severity = 'style' OR calls_with_it = 0 OR pow(1 - least(1, any(d.hits) / calls_with_it), before.2) > 0.05, '', before.1) AS last_clean,
    any(d.versions_with_it) AS versions,
    any(d.first_seen_at) AS first_seen,
    any(d.last_seen_at) AS last_seen,
    any(d.instances) AS findings,
    any(d.conversations) AS conversations,
    d.fingerprint AS fingerprint
FROM defects AS d
LEFT JOIN calls_by_version AS v ON v.service = d.bad_service AND v.stage = d.bad_stage
GROUP BY d.fingerprint
ORDER BY indexOf(['style', 'lenient', 'reject'], severity) DESC, findings DESC, fingerprint
LIMIT 50
