-- Whose change? The first version that shows each defect or cause of failures, the last clean one, and since when.
-- group Whose change
-- since 7 days
-- param rule = : only this rule
-- param cause = : only calls that failed with this cause
-- param severity = : only this severity: reject (the call fails), lenient (this provider accepts it) or style
-- The analyzer remembers for weeks which version showed a defect first and stores it in each finding, so it knows versions older
-- than the rows. Each partition of the stream has its own memory; the earliest row of all partitions is used. If nothing is
-- remembered, for example for imported calls, the version is that of the first request with the defect. A style finding breaks
-- nothing, so it has no first version. A cause that no finding explains has no rule_id; for one that is independent of the version,
-- such as rate_limit, the first version is merely the first one affected. A version is clean if it made so many calls before
-- without the defect that at the share of the versions with it, one of them would have shown it with a probability of 95%.
WITH
    findings_of_rules AS
    (
        SELECT
            toString(f.service) AS service,
            toString(f.stage) AS stage,
            toString(f.rule_id) AS rule_id,
            toString(f.root_cause) AS root_cause,
            toString(anyIf(e.cause, e.cause != '')) AS failed_with_cause,
            multiIf(countIf(f.severity = 'reject') > 0, 'reject', countIf(f.severity = 'lenient') > 0, 'lenient', 'style') AS severity,
            arraySum(v -> any(c.calls)[v], groupUniqArray(20)(toString(f.exchange_version))) AS calls_with_it,
            argMin((f.first_version, f.last_clean_version, f.clean_calls), (f.first_version = '', f.first_seen)) AS remembered,
            argMin(toString(f.exchange_version), f.first_seen) AS of_rows,
            if(severity = 'style', '', if(remembered.1 != '', toString(remembered.1), of_rows)) AS first_version,
            arrayReverseSort(arrayFilter(v -> v.1 < min(f.first_seen) AND v.2 != '' AND NOT has(groupUniqArray(100)(toString(f.exchange_version)), v.2), any(c.versions)))[1] AS row_before,
            if(remembered.1 != '', (toString(remembered.2), toUInt64(remembered.3)), (row_before.2, toUInt64(row_before.3))) AS before,
            if(severity = 'style' OR calls_with_it = 0 OR pow(1 - least(1, uniqExact(f.exchange_id) / calls_with_it), before.2) > 0.05, '', before.1) AS last_clean_version,
            min(f.first_seen) AS since_when,
            max(f.first_seen) AS newest,
            uniqExactIf(f.exchange_id, f.status >= 400) AS failed_calls,
            count() AS findings,
            uniqExact(f.conversation_id) AS conversations,
            arraySort(groupUniqArray(20)(toString(f.exchange_version))) AS versions_with_it,
            argMin(f.exchange_id, f.first_seen) AS first_exchange_id
        FROM findings AS f FINAL
        LEFT JOIN
        (
            SELECT exchange_id, cause
            FROM exchanges FINAL
            WHERE {filter exchanges ONLY time, service}
                AND cause != ''
        ) AS e ON e.exchange_id = f.exchange_id
        LEFT JOIN
        (
            SELECT service, stage, mapFromArrays(groupArray(toString(service_version)), groupArray(n)) AS calls,
                groupArray((first_call, toString(service_version), clean)) AS versions
            FROM
            (
                SELECT service, stage, service_version, count() AS n, countIf(NOT failed AND retry = 0) AS clean,
                    min(if(origin = 'import', started_at, stored_at)) AS first_call
                FROM exchanges FINAL
                WHERE {filter exchanges ONLY time, service, stage, environment}
                GROUP BY service, stage, service_version
            )
            GROUP BY service, stage
        ) AS c ON c.service = f.service AND c.stage = f.stage
        WHERE {filter findings AS f}
            AND f.severity != 'signal'
            AND ({rule:String} = '' OR f.rule_id = {rule:String})
            AND ({cause:String} = '' OR e.cause = {cause:String})
        GROUP BY f.service, f.stage, f.rule_id, f.root_cause
        HAVING {severity:String} IN ('', severity)
    )
SELECT * EXCEPT explained
FROM
(
    SELECT *, countIf(rule_id != '') OVER (PARTITION BY service, stage, failed_with_cause) AS explained
    FROM
    (
        SELECT first_version, last_clean_version, since_when, service, stage, failed_with_cause, rule_id, root_cause, severity, failed_calls, findings,
            conversations, newest, versions_with_it, first_exchange_id
        FROM findings_of_rules
        UNION ALL
        SELECT toString(first_version), toString(last_clean_version), first_seen, toString(service), toString(stage), toString(cause), '', toString(root_cause), '',
            failed_calls, 0, 0, last_seen, versions, first_exchange_id
        FROM
        (
            {first failures}
        )
        WHERE {rule:String} = '' AND {severity:String} = ''
    )
)
WHERE rule_id != '' OR explained = 0
ORDER BY failed_calls DESC, indexOf(['style', 'lenient', 'reject'], severity) DESC, findings DESC, service, stage, rule_id, root_cause
LIMIT 50
