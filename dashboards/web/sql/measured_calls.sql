-- Which calls have the most of a measure?
-- since 1 hour
-- param measure = duration: duration, first_token, input_tokens, output_tokens, history, answer_limit or answer_filtered
-- param above = 0: only calls with more than this
-- One call of a conversation.
WITH
    {measured} AS hit,
    multiIf(
        {measure:String} = 'first_token', first_byte,
        {measure:String} = 'input_tokens', toFloat64(ifNull(input_tokens, 0)),
        {measure:String} = 'history', toFloat64(messages),
        {measure:String} = 'duration', duration,
        toFloat64(ifNull(output_tokens, 0))) AS much
SELECT
    exchange_id,
    conversation_id,
    started_at,
    toString(model) AS model,
    toString(service_version) AS version,
    toString(finish_reason) AS finish_reason,
    duration,
    if(stream, first_byte, 0) AS first_byte,
    toInt64(ifNull(input_tokens, 0)) AS input,
    toInt64(ifNull(output_tokens, 0)) AS output,
    toInt64(messages) AS messages
FROM exchanges FINAL
WHERE hit
    AND {filter exchanges}
    AND {counted}
ORDER BY much DESC, started_at DESC
LIMIT 1 BY if(conversation_id = '', exchange_id, conversation_id)
LIMIT 3
