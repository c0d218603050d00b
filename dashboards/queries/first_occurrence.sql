-- Since when do calls fail with a cause, and which version introduced it?
-- group Whose change
-- since 7 days
-- param cause = : only this cause
-- The last clean version made calls of the stage before the first failure and never failed with this cause, in so many calls that
-- at the share of the versions that do, it would have with a probability of 95%. SDK retries and calls cancelled by the agent are not
-- counted. For causes that are
-- independent of the version, such as rate_limit, the first version is merely the first one affected. A filter by status selects
-- the failures that count, a filter by version the causes that the version shows.
WITH
    versions AS
    (
        SELECT
            service,
            stage,
            service_version,
            if({filter exchanges ONLY status}, cause, '') AS cause,
            root_cause,
            countIf({counted}) AS n,
            countIf(NOT failed AND retry = 0) AS clean,
            min(started_at) AS first_at,
            max(started_at) AS last_at,
            argMinIf(exchange_id, started_at, failed) AS first_id
        FROM exchanges_final
        WHERE {filter exchanges EXCEPT version, status}
        GROUP BY service, stage, service_version, cause, root_cause
    ),
    -- The versions of each row, with all versions of its stage and their first calls.
    with_all_versions AS
    (
        SELECT *, groupUniqArray((first_call, service_version, version_clean, version_calls)) OVER (PARTITION BY service, stage) AS all_versions
        FROM
        (
            SELECT
                *,
                min(first_at) OVER (PARTITION BY service, stage, service_version) AS first_call,
                sum(clean) OVER (PARTITION BY service, stage, service_version) AS version_clean,
                sum(n) OVER (PARTITION BY service, stage, service_version) AS version_calls
            FROM versions
        )
    ),
    groupUniqArray(service_version) AS versions_with_it,
    arrayReverseSort(arrayFilter(v -> v.1 < first_seen AND v.2 != '' AND NOT has(versions_with_it, v.2), any(all_versions)))[1] AS before,
    arraySum(v -> v.4, arrayFilter(v -> has(versions_with_it, v.2), any(all_versions))) AS calls_with_it
SELECT
    service,
    stage,
    cause,
    root_cause,
    min(first_at) AS first_seen,
    argMin(service_version, first_at) AS first_version,
    if(pow(1 - failed_calls / calls_with_it, before.3) > 0.05, '', before.2) AS last_clean_version,
    sum(n) AS failed_calls,
    max(last_at) AS last_seen,
    argMin(first_id, first_at) AS first_exchange_id
FROM with_all_versions
WHERE cause != ''
    AND ({cause:String} = '' OR cause = {cause:String})
GROUP BY service, stage, cause, root_cause
HAVING countIf({filter exchanges ONLY version}) > 0
ORDER BY first_seen DESC, failed_calls DESC, service, stage, cause, root_cause
LIMIT 100
