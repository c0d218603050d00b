-- Which tool calls never got a reply, or got an invalid one?
-- group Tools
-- since 1 day
-- param tool = : only this tool
-- param older_than = 10 minutes: younger calls are omitted, because they may still be running
-- missing: the conversation continued without the reply, or its run or process ended before. duplicate, late, rejected: the
-- reply arrived twice, too late, or in a request that the provider rejected. abandoned: the conversation ended with the call.
-- open: nothing has happened since the call. Calls that are never answered by design (terminal) are omitted.
SELECT
    state,
    service,
    service_version,
    stage,
    tool_name,
    count() AS calls,
    uniqExact(conversation_id) AS conversations,
    countIf(started_at IS NOT NULL AND ended_at IS NULL) AS tools_still_running,
    min(asked_at) AS first_asked,
    max(asked_at) AS last_asked,
    argMax(tool_call_id, asked_at) AS last_tool_call_id,
    argMax(conversation_id, asked_at) AS last_conversation_id
FROM tool_calls FINAL
WHERE state NOT IN ('answered', 'terminal')
    AND {filter tool_calls}
    AND ({tool:String} = '' OR tool_name = {tool:String})
    AND (state != 'open' OR asked_at < now() - toIntervalSecond(toUInt32(parseTimeDelta({older_than:String}))))
GROUP BY state, service, service_version, stage, tool_name
ORDER BY indexOf(['abandoned', 'rejected', 'late', 'duplicate', 'missing'], state) DESC, calls DESC, service, stage, service_version, tool_name
LIMIT 100
