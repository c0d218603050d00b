-- Which calls took the longest?
-- group Usage and latency
-- param since = 1 hour: start of the time range
-- param until = : end of the time range
-- param service = : only this service
-- param stage = : only this stage
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
WHERE started_at >= {since:DateTime64(9, 'UTC')}
    AND started_at < {until:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR service = {service:String})
    AND ({stage:String} = '' OR stage = {stage:String})
ORDER BY duration DESC, exchange_id
LIMIT 50
