-- Which calls took longest?
-- param since = 1 hour: how far back to look
-- param service = : one service only
SELECT
    round(duration, 2) AS seconds,
    round(first_byte, 2) AS seconds_to_first_byte,
    started_at,
    service,
    service_version,
    stage,
    model,
    status,
    cause,
    messages,
    input_tokens,
    output_tokens,
    retry,
    conversation_id,
    exchange_id
FROM exchanges_final
WHERE started_at > now() - toIntervalSecond(toUInt32(parseTimeDelta({since:String})))
    AND ({service:String} = '' OR service = {service:String})
ORDER BY duration DESC, exchange_id
LIMIT 50
