-- Which messages hold a text, and in which conversations? The newest first.
-- group Conversations
-- param text: whole words, in any case, as they stand in the JSON
-- param since = 7 days: from when on
-- param until = : up to when
-- param service = : one service only
-- The longest word of the text is looked up in the index of messages, so the text must begin and end with whole words; one
-- that is not ASCII is looked for in every message. Prompts that all conversations of an agent share are not searched.
-- A message is the same in each version of its row, so the table is read without FINAL, which would not use the index.
WITH
    lower({text:String}) AS wanted,
    arraySort(w -> -length(w), splitByNonAlpha(wanted))[1] AS longest,
    match(wanted, '[^ -~]') OR empty(longest) AS anywhere,
    hits AS
    (
        SELECT id, any(body) AS text
        FROM messages
        WHERE seen_at >= {since:DateTime64(9, 'UTC')}
            AND kind != 'parameters'
            AND (anywhere OR hasToken(replaceAll(replaceAll(lower(body), '\\n', ' '), '\\t', ' '), if(anywhere, 'a', longest)))
            AND position(lower(body), wanted) > 0
        GROUP BY id
        LIMIT 10000
    ),
    places AS
    (
        SELECT message_id AS id, seen_at, service, conversation_id, exchange_id, role
        FROM history_final
        WHERE message_id IN (SELECT id FROM hits)
        UNION ALL
        SELECT answer AS id, stored_at AS seen_at, service, conversation_id, exchange_id, 'answer' AS role
        FROM exchanges_final
        WHERE answer IN (SELECT id FROM hits)
    )
SELECT
    places.seen_at AS seen_at,
    places.service AS service,
    places.conversation_id AS conversation_id,
    places.exchange_id AS exchange_id,
    places.role AS role,
    substringUTF8(hits.text, greatest(1, positionCaseInsensitiveUTF8(hits.text, {text:String}) - 60), 200) AS excerpt
FROM places
INNER JOIN hits ON hits.id = places.id
WHERE places.seen_at >= {since:DateTime64(9, 'UTC')}
    AND places.seen_at < {until:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR places.service = {service:String})
ORDER BY seen_at DESC, exchange_id
LIMIT 50
