-- Which tool calls never got their reply?
-- param since = 1 day: how far back to look
-- param older_than = 10 minutes: calls younger than this may still be at work
-- State missing: the conversation went on without the reply. State open: nothing came after the call.
SELECT
    state,
    service,
    service_version,
    stage,
    tool_name,
    count() AS calls,
    uniqExact(conversation_id) AS conversations,
    min(asked_at) AS first_asked,
    max(asked_at) AS last_asked,
    argMax(tool_call_id, asked_at) AS last_tool_call_id,
    argMax(conversation_id, asked_at) AS last_conversation_id
FROM tool_calls_final
WHERE state != 'answered'
    AND asked_at > now() - toIntervalSecond(toUInt32(parseTimeDelta({since:String})))
    AND (state = 'missing' OR asked_at < now() - toIntervalSecond(toUInt32(parseTimeDelta({older_than:String}))))
GROUP BY state, service, service_version, stage, tool_name
ORDER BY state = 'missing' DESC, calls DESC, service, stage, service_version, tool_name
LIMIT 100
