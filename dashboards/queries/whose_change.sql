-- Whose change is it: which version showed a defect first, which was the last clean one, and since when?
-- group Whose change
-- since 7 days
-- param rule = : only this rule
-- param cause = : only defects of calls that failed with this cause
-- The analyzer remembers for weeks which version showed a defect first and stores it in each finding, so it knows versions older
-- than the rows. Each partition of the stream has its own memory; the earliest row of all partitions is used. If nothing is
-- remembered, for example for imported calls, use first_bad_version, which derives the versions from the rows. A style finding
-- breaks nothing, so it has no first version. A version is clean if it made so many calls before without the defect that at the
-- share of the versions with it, one of them would have shown it with a probability of 95%.
WITH
    arraySum(v -> any(c.calls)[v], groupUniqArray(20)(toString(f.exchange_version))) AS calls_with_it,
    argMin((f.last_clean_version, f.clean_calls), (f.first_version = '', f.first_seen)) AS before
SELECT
    f.service AS service,
    f.stage AS stage,
    f.rule_id AS rule_id,
    f.root_cause AS root_cause,
    multiIf(countIf(f.severity = 'reject') > 0, 'reject', countIf(f.severity = 'lenient') > 0, 'lenient', 'style') AS severity,
    if(severity = 'style', '', argMin(f.first_version, (f.first_version = '', f.first_seen))) AS first_version,
    if(severity = 'style' OR calls_with_it = 0 OR pow(1 - least(1, uniqExact(f.exchange_id) / calls_with_it), before.2) > 0.05, '', before.1) AS last_clean_version,
    min(f.first_seen) AS since_when,
    max(f.first_seen) AS newest,
    count() AS findings,
    uniqExact(f.conversation_id) AS conversations,
    uniqExactIf(f.exchange_id, f.status >= 400) AS failed_calls,
    arraySort(groupUniqArray(20)(f.exchange_version)) AS versions_with_it,
    argMin(f.exchange_id, f.first_seen) AS first_exchange_id,
    any(e.cause) AS failed_with_cause
FROM findings_final AS f
LEFT JOIN
(
    SELECT exchange_id, cause
    FROM exchanges_final
    WHERE {filter exchanges ONLY time, service}
        AND cause != ''
) AS e ON e.exchange_id = f.exchange_id
LEFT JOIN
(
    SELECT service, stage, mapFromArrays(groupArray(toString(service_version)), groupArray(n)) AS calls
    FROM
    (
        SELECT service, stage, service_version, count() AS n
        FROM exchanges_final
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
ORDER BY failed_calls DESC, indexOf(['style', 'lenient', 'reject'], severity) DESC, findings DESC, service, stage, rule_id, root_cause
LIMIT 50
