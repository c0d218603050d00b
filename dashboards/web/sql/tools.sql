-- What became of the calls of each tool?
-- since 1 hour
-- Calls that are never answered by design (terminal) count as answered. A call that is open for less than 10 minutes may still run.
SELECT
    tool_name,
    service,
    stage,
    count() AS calls,
    countIf(state = 'missing') AS missing,
    countIf(state = 'abandoned') AS abandoned,
    countIf(state = 'late') AS late,
    countIf(state = 'duplicate') AS duplicate,
    countIf(state = 'rejected') AS rejected,
    countIf(state = 'open' AND asked_at < now() - 600) AS open_long,
    countIf(state = 'open') - open_long AS running,
    minOrNullIf(asked_at, state = 'open') AS open_since,
    missing + abandoned + open_long AS unanswered,
    unanswered + late + duplicate + rejected AS bad,
    countIf(tool_status = 'error' OR reply_error != '') AS tool_errors,
    argMaxIf(conversation_id, asked_at, state NOT IN ('answered', 'terminal', 'open')) AS example,
    argMaxIf(tool_call_id, asked_at, state NOT IN ('answered', 'terminal', 'open')) AS example_call,
    round(quantileOrNullIf(0.95)(dateDiff('millisecond', asked_at, assumeNotNull(answered_at)) / 1000, answered_at IS NOT NULL), 3) AS p95
FROM tool_calls FINAL
WHERE {filter tool_calls}
GROUP BY tool_name, service, stage
ORDER BY unanswered * unanswered / calls DESC, bad DESC, calls DESC, tool_name, service, stage
LIMIT 100
