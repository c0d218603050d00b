-- Which tools take longest?
-- group Tools
-- param since = 1 day: from when on
-- param until = : up to when
-- param service = : one service only
-- param stage = : one stage only
-- param tool = : one tool only
-- A call takes from its start to its end where the agent tells (measured), else from the answer that asks for it to the
-- request that holds its reply, which includes what the agent does in between.
WITH if(started_at IS NOT NULL AND ended_at IS NOT NULL, dateDiff('millisecond', started_at, ended_at), dateDiff('millisecond', asked_at, answered_at)) / 1000 AS seconds
SELECT
    tool_name,
    service,
    stage,
    count() AS calls,
    countIf(started_at IS NOT NULL AND ended_at IS NOT NULL) AS measured,
    countIf(tool_status = 'error') AS errors,
    round(quantile(0.5)(assumeNotNull(seconds)), 2) AS p50_seconds,
    round(quantile(0.95)(assumeNotNull(seconds)), 2) AS p95_seconds,
    round(max(assumeNotNull(seconds)), 2) AS max_seconds,
    round(sum(assumeNotNull(seconds)), 0) AS total_seconds,
    argMax(exchange_id, assumeNotNull(seconds)) AS slowest_asked_by
FROM tool_calls_final
WHERE seconds IS NOT NULL
    AND asked_at >= {since:DateTime64(9, 'UTC')}
    AND asked_at < {until:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR service = {service:String})
    AND ({stage:String} = '' OR stage = {stage:String})
    AND ({tool:String} = '' OR tool_name = {tool:String})
GROUP BY tool_name, service, stage
ORDER BY p95_seconds DESC, tool_name, service, stage
LIMIT 100
