-- Which tools take the longest?
-- group Tools
-- since 1 day
-- param tool = : only this tool
-- The duration of a tool call is the time between its start and its end if the agent reports them (measured). Otherwise it is
-- the time from the response that requested the call to the request that contains its reply, which includes other work of the
-- agent. An error is one that the agent reports, or a reply that reports one.
WITH if(started_at IS NOT NULL AND ended_at IS NOT NULL, dateDiff('microsecond', started_at, ended_at), dateDiff('microsecond', asked_at, answered_at)) / 1e6 AS seconds
SELECT
    tool_name,
    service,
    stage,
    count() AS calls,
    countIf(started_at IS NOT NULL AND ended_at IS NOT NULL) AS measured,
    countIf(tool_status = 'error' OR reply_error != '') AS errors,
    round(quantile(0.5)(assumeNotNull(seconds)), 4) AS p50_seconds,
    round(quantile(0.95)(assumeNotNull(seconds)), 4) AS p95_seconds,
    round(max(assumeNotNull(seconds)), 4) AS max_seconds,
    round(sum(assumeNotNull(seconds)), 3) AS total_seconds,
    argMax(exchange_id, assumeNotNull(seconds)) AS slowest_asked_by
FROM tool_calls FINAL
WHERE seconds IS NOT NULL
    AND {filter tool_calls}
    AND ({tool:String} = '' OR tool_name = {tool:String})
GROUP BY tool_name, service, stage
ORDER BY p95_seconds DESC, tool_name, service, stage
LIMIT 100
