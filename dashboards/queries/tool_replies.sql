-- What did a tool return, and with which arguments was it called? Newest first.
-- group Tools
-- param tool: function name or call id
-- since 1 day
-- param conversation_id = : only calls of this conversation
-- param returned = : only replies that contain this text, of the newest calls; raise limit to search further back
-- texts
-- Arguments and replies are read from the answer that made the call, and from the messages that the request with the reply
-- added. The answer of a streamed call is not JSON, so its arguments are those of its copy in that request. A long text is cut in
-- the middle; llmtap show CONVERSATION --tool NAME --full prints it whole.
WITH
    (
        SELECT groupArray((asked_at, service, service_version, stage, conversation_id, exchange_id, tool_name, tool_call_id, state, answered_at, answered_by))
        FROM
        (
            SELECT *
            FROM tool_calls FINAL
            WHERE {filter tool_calls}
                AND (tool_name = {tool:String} OR tool_call_id = {tool:String})
                AND ({conversation_id:String} = '' OR conversation_id = {conversation_id:String})
            ORDER BY asked_at DESC, id
            LIMIT {limit:UInt32}
        )
    ) AS calls,
    arrayDistinct(arrayMap(c -> if(c.8 = '', toString(c.7), c.8), calls)) AS words,
    places AS
    (
        SELECT exchange_id, message_id
        FROM history FINAL
        WHERE conversation_id IN (SELECT arrayJoin(calls).5)
            AND exchange_id IN (SELECT arrayJoin(calls).11)
        UNION ALL
        SELECT exchange_id, answer AS message_id
        FROM exchanges FINAL
        WHERE (toStartOfHour(started_at), service, exchange_id) IN
            (
                SELECT toStartOfHour(started_at), service, exchange_id
                FROM exchanges
                WHERE exchange_id IN (SELECT arrayJoin(calls).6)
                    AND stored_at >= arrayMin(c -> c.1, calls) - INTERVAL 1 DAY
            )
    ),
    bodies AS
    (
        SELECT p.exchange_id AS exchange_id, m.text AS text
        FROM places AS p
        INNER JOIN
        (
            SELECT id, any(body) AS text
            FROM messages
            WHERE id IN (SELECT message_id FROM places)
                AND (length(words) > 255 OR multiSearchAny(body, arraySlice(words, 1, 255)))
            GROUP BY id
        ) AS m ON m.id = p.message_id
    ),
    text -> if(startsWith(text, '"'), JSONExtractString(concat('[', text, ']'), 1), text) AS unquote,
    text -> if(lengthUTF8(text) <= 2000, text, concat(leftUTF8(text, 1300), ' … ', toString(lengthUTF8(text) - 2000), ' characters left out … ', rightUTF8(text, 700))) AS cut
SELECT
    call.1 AS asked_at,
    call.2 AS service,
    call.3 AS service_version,
    call.4 AS stage,
    call.5 AS conversation_id,
    call.6 AS exchange_id,
    call.7 AS tool_name,
    call.8 AS tool_call_id,
    call.9 AS state,
    cut(max(unquote(arguments))) AS called_with,
    call.10 AS answered_at,
    call.11 AS answered_by,
    cut(max(unquote(reply))) AS returned
FROM
(
    SELECT
        w.call AS call,
        arrayConcat([b.text], JSONExtractArrayRaw(b.text, 'content'), JSONExtractArrayRaw(b.text, 'parts')) AS parts,
        arrayFirst(p -> call.8 IN (
                JSONExtractString(p, 'tool_call_id'), JSONExtractString(p, 'tool_use_id'), JSONExtractString(p, 'toolResult', 'toolUseId'),
                JSONExtractString(p, 'functionResponse', 'id'), if(endsWith(JSONExtractString(p, 'type'), '_output'), JSONExtractString(p, 'call_id'), '')
            ) AND call.8 != '' OR JSONExtractString(p, 'functionResponse', 'name') = call.7, parts) AS replying,
        arrayFirst(p -> call.8 IN (JSONExtractString(p, 'id'), JSONExtractString(p, 'call_id'), JSONExtractString(p, 'toolUse', 'toolUseId')) AND call.8 != ''
                AND NOT endsWith(JSONExtractString(p, 'type'), '_output') OR JSONExtractString(p, 'functionCall', 'name') = call.7,
            arrayConcat(
                parts, JSONExtractArrayRaw(b.text, 'tool_calls'), JSONExtractArrayRaw(b.text, 'choices', 1, 'message', 'tool_calls'),
                JSONExtractArrayRaw(b.text, 'message', 'tool_calls'), JSONExtractArrayRaw(b.text, 'output'), JSONExtractArrayRaw(b.text, 'output', 'message', 'content'),
                JSONExtractArrayRaw(b.text, 'candidates', 1, 'content', 'parts'))) AS calling,
        arrayFirst(r -> r != '', [
            JSONExtractRaw(calling, 'function', 'arguments'), JSONExtractRaw(calling, 'arguments'), JSONExtractRaw(calling, 'custom', 'input'),
            JSONExtractRaw(calling, 'input'), JSONExtractRaw(calling, 'toolUse', 'input'), JSONExtractRaw(calling, 'functionCall', 'args')]) AS arguments,
        if(w.exchange_id = call.11, arrayFirst(r -> r != '', [
            JSONExtractRaw(replying, 'content'), JSONExtractRaw(replying, 'output'), JSONExtractRaw(replying, 'toolResult', 'content'),
            JSONExtractRaw(replying, 'functionResponse', 'response')]), '') AS reply
    FROM
    (
        SELECT arrayJoin(calls) AS call, arrayJoin(arrayDistinct([call.6, call.11])) AS exchange_id
    ) AS w
    LEFT JOIN bodies AS b ON b.exchange_id = w.exchange_id
)
GROUP BY call
HAVING {returned:String} = '' OR positionCaseInsensitiveUTF8(max(unquote(reply)), {returned:String}) > 0
ORDER BY asked_at DESC, exchange_id, tool_call_id
LIMIT 50
