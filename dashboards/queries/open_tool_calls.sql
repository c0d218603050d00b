-- Which tool calls never got their reply, or got it wrong?
-- group Tools
-- param since = 1 day: from when on
-- param until = : up to when
-- param service = : one service only
-- param stage = : one stage only
-- param tool = : one tool only
-- param older_than = 10 minutes: calls younger than this may still be at work
-- State missing: the conversation went on without the reply, or its run or process ended before. State duplicate, late,
-- rejected: a reply came, but twice, too late, or in a request that the provider refused. State abandoned: nothing came after
-- the call, and nothing did so far with state open. Calls that nobody means to answer (terminal) are left out.
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
FROM tool_calls_final
WHERE state NOT IN ('answered', 'terminal')
    AND asked_at >= {since:DateTime64(9, 'UTC')}
    AND asked_at < {until:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR service = {service:String})
    AND ({stage:String} = '' OR stage = {stage:String})
    AND ({tool:String} = '' OR tool_name = {tool:String})
    AND (state != 'open' OR asked_at < now() - toIntervalSecond(toUInt32(parseTimeDelta({older_than:String}))))
GROUP BY state, service, service_version, stage, tool_name
ORDER BY indexOf(['abandoned', 'rejected', 'late', 'duplicate', 'missing'], state) DESC, calls DESC, service, stage, service_version, tool_name
LIMIT 100
