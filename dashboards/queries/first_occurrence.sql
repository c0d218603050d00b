-- Since when do calls fail for a cause, and which version brought it?
-- group Whose change
-- param since = 7 days: from when on
-- param until = : up to when
-- param service = : one service only
-- param stage = : one stage only
-- param cause = : one cause only
-- The last clean version made calls of the stage before the first failure and never failed for this cause. Of causes that
-- are no fault of a version, such as rate_limit, the first version is just the one that met them.
WITH
    versions AS
    (
        SELECT
            service,
            stage,
            service_version,
            cause,
            root_cause,
            count() AS n,
            min(started_at) AS first_at,
            max(started_at) AS last_at,
            argMinIf(exchange_id, started_at, failed) AS first_id
        FROM exchanges_final
        WHERE started_at >= {since:DateTime64(9, 'UTC')}
            AND started_at < {until:DateTime64(9, 'UTC')}
            AND ({service:String} = '' OR service = {service:String})
            AND ({stage:String} = '' OR stage = {stage:String})
        GROUP BY service, stage, service_version, cause, root_cause
    ),
    seen AS
    (
        SELECT service, stage, groupArray((first_call, service_version)) AS all_versions
        FROM
        (
            SELECT service, stage, service_version, min(first_at) AS first_call
            FROM versions
            GROUP BY service, stage, service_version
        )
        GROUP BY service, stage
    ),
    defects AS
    (
        SELECT
            service,
            stage,
            cause,
            root_cause,
            min(first_at) AS first_seen,
            max(last_at) AS last_seen,
            argMin(service_version, first_at) AS first_version,
            groupUniqArray(service_version) AS bad_versions,
            sum(n) AS failed_calls,
            argMin(first_id, first_at) AS first_exchange_id
        FROM versions
        WHERE cause != ''
            AND ({cause:String} = '' OR cause = {cause:String})
        GROUP BY service, stage, cause, root_cause
    )
SELECT
    d.service AS service,
    d.stage AS stage,
    d.cause AS cause,
    d.root_cause AS root_cause,
    d.first_seen AS first_seen,
    d.first_version AS first_version,
    arrayReverseSort(arrayFilter(v -> v.1 < d.first_seen AND v.2 != '' AND NOT has(d.bad_versions, v.2), s.all_versions))[1].2 AS last_clean_version,
    d.failed_calls AS failed_calls,
    d.last_seen AS last_seen,
    d.first_exchange_id AS first_exchange_id
FROM defects AS d
INNER JOIN seen AS s ON s.service = d.service AND s.stage = d.stage
ORDER BY first_seen DESC, failed_calls DESC, service, stage, cause, root_cause
LIMIT 100
