-- Who uses how many tokens, and how many of them in calls that failed?
-- param since = 1 day: how far back to look
SELECT
    service,
    stage,
    model,
    count() AS calls,
    sum(input_tokens) AS input,
    sum(cached_tokens) AS cached,
    sum(output_tokens) AS output,
    sumIf(input_tokens + output_tokens, failed) AS in_failed_calls,
    round(avg(messages), 1) AS messages_per_call,
    formatReadableSize(sum(request_bytes)) AS sent
FROM exchanges_final
WHERE started_at > now() - toIntervalSecond(toUInt32(parseTimeDelta({since:String})))
GROUP BY service, stage, model
ORDER BY input + output DESC, service, stage, model
LIMIT 100
