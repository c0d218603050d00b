-- Whose change? The first version that shows each defect, and the last clean one.
-- group Whose change
-- param since = 7 days: start of the time range
-- param until = : end of the time range
-- param service = : only this service
-- param stage = : only this stage
-- param rule = : only this rule
-- A version is clean if the same stage made calls with it before the first occurrence of the defect and it never showed the
-- defect.
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
            argMin(service_version, first_seen) AS first_bad_version,
            min(first_seen) AS first_seen_at,
            max(first_seen) AS last_seen_at,
            groupUniqArray(100)(service_version) AS bad_versions,
            count() AS instances,
            uniqExact(conversation_id) AS conversations
        FROM findings_final
        WHERE first_seen >= {since:DateTime64(9, 'UTC')}
            AND first_seen < {until:DateTime64(9, 'UTC')}
            AND severity != 'signal'
            AND ({service:String} = '' OR service = {service:String})
            AND ({stage:String} = '' OR stage = {stage:String})
            AND ({rule:String} = '' OR rule_id = {rule:String})
        GROUP BY fingerprint
    ),
    versions AS
    (
        SELECT service, stage, service_version, min(started_at) AS first_call
        FROM exchanges_final
        WHERE started_at >= {since:DateTime64(9, 'UTC')}
            AND started_at < {until:DateTime64(9, 'UTC')}
            AND ({service:String} = '' OR service = {service:String})
            AND ({stage:String} = '' OR stage = {stage:String})
        GROUP BY service, stage, service_version
    )
SELECT
    any(d.bad_service) AS service,
    any(d.bad_stage) AS stage,
    any(d.rule) AS rule_id,
    any(d.root) AS root_cause,
    any(d.tool) AS tool_name,
    any(d.first_bad_version) AS first_bad,
    argMaxIf(v.service_version, v.first_call, v.service_version != '' AND v.first_call < d.first_seen_at AND NOT has(d.bad_versions, v.service_version)) AS last_clean,
    any(d.first_seen_at) AS first_seen,
    any(d.last_seen_at) AS last_seen,
    any(d.instances) AS findings,
    any(d.conversations) AS conversations,
    d.fingerprint AS fingerprint
FROM defects AS d
LEFT JOIN versions AS v ON v.service = d.bad_service AND v.stage = d.bad_stage
GROUP BY d.fingerprint
ORDER BY findings DESC, fingerprint
LIMIT 50
