-- Which calls took the longest?
-- group Usage and latency
-- since 1 hour
SELECT
    round(nullIf(duration, 0), 3) AS seconds,
    round(nullIf(first_byte, 0), 3) AS seconds_to_first_byte,
    started_at,
    service,
    service_version,
    stage,
    model,
    status,
    {said cause} AS cause,
    messages,
    input_tokens,
    output_tokens,
    retry,
    conversation_id,
    exchange_id
FROM exchanges FINAL
WHERE {filter exchanges}
ORDER BY duration DESC, exchange_id
LIMIT 50
