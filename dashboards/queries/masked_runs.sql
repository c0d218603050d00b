-- Which runs were reported ok although their last call failed?
-- param since = 1 day: how far back to look
-- param service = : one service only
-- Calls that ran side by side are not told apart here; findings of masked_failure leave them out.
SELECT
    service,
    service_version,
    stage,
    last_cause,
    last_status,
    count() AS runs,
    sum(calls) AS calls_in_them,
    sum(failed_calls) AS failed_calls_in_them,
    max(seen_at) AS last_seen,
    argMax(run_id, seen_at) AS last_run_id,
    argMax(last_exchange_id, seen_at) AS example_exchange_id
FROM runs_final
WHERE status = 'ok'
    AND last_cause != ''
    AND seen_at > now() - toIntervalSecond(toUInt32(parseTimeDelta({since:String})))
    AND ({service:String} = '' OR service = {service:String})
GROUP BY service, service_version, stage, last_cause, last_status
ORDER BY runs DESC, service, stage, service_version, last_cause, last_status
LIMIT 100
