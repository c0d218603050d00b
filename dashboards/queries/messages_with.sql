-- Which messages contain a text, and in which conversations? Newest first.
-- group Conversations
-- param text: whole words in any case, as written in the JSON
-- since 7 days
-- texts
-- The longest word of the text is looked up in the index of messages, so the text must begin and end with whole words; a text
-- that is not ASCII is searched in every message. Prompts shared by all conversations of an agent are not searched. Ids begin with
-- the start of the conversation, so the matches in the newest conversations are found by reading from the end. If they suffice,
-- older conversations are read only as far as they are still in use; otherwise their 10,000 newest matches are read as well. A
-- message and its place are the same in all versions of their rows, so they are read without FINAL, which would not use the index.
WITH
    lower({text:String}) AS phrase,
    arraySort(w -> -length(w), splitByNonAlpha(phrase))[1] AS longest_word,
    match(phrase, '[^ -~]') OR empty(longest_word) AS full_scan,
    if(full_scan, 'a', longest_word) AS word,
    -- The letter of an escape sequence \n or \t belongs to the word after it.
    kind != 'parameters'
        AND (full_scan OR hasToken(lower(body), word) OR hasToken(lower(body), concat('n', word)) OR hasToken(lower(body), concat('t', word)))
        AND position(lower(body), phrase) > 0 AS matches,
    (
        SELECT (groupArray(id), min(id), min(seen_at))
        FROM
        (
            SELECT id, seen_at
            FROM messages
            WHERE seen_at >= {since:DateTime64(9, 'UTC')}
                AND matches
            ORDER BY id DESC
            LIMIT 4 * {limit:UInt32}
        )
    ) AS young,
    length(young.1) < 4 * {limit:UInt32} AS complete,
    (
        SELECT uniqExact(message_id)
        FROM history
        WHERE message_id IN (SELECT arrayJoin(young.1))
            AND seen_at >= young.3
            AND {filter history}
            AND NOT complete
    ) AS placed,
    if(placed < {limit:UInt32}, {since:DateTime64(9, 'UTC')}, greatest(toDateTime64(young.3, 9, 'UTC'), {since:DateTime64(9, 'UTC')})) AS needed_since,
    (
        SELECT groupArray(id)
        FROM
        (
            SELECT id
            FROM messages
            WHERE NOT complete
                AND id < young.2
                AND seen_at >= needed_since
                AND matches
            ORDER BY id DESC
            LIMIT 10000
        )
    ) AS old,
    arrayConcat(young.1, old) AS hits,
    places AS
    (
        SELECT id, seen_at, service, conversation_id, exchange_id, role
        FROM
        (
            SELECT message_id AS id, seen_at, service, conversation_id, exchange_id, role
            FROM history
            WHERE message_id IN (SELECT arrayJoin(hits))
            ORDER BY seq DESC
            LIMIT 1 BY conversation_id, branch, position
        )
        UNION ALL
        SELECT answer AS id, stored_at AS seen_at, service, conversation_id, exchange_id, 'answer' AS role
        FROM exchanges FINAL
        WHERE (toStartOfHour(started_at), service, exchange_id) IN
            (
                SELECT toStartOfHour(started_at), service, exchange_id
                FROM exchanges
                WHERE answer IN (SELECT arrayJoin(hits))
                    AND stored_at >= needed_since
            )
            AND answer IN (SELECT arrayJoin(hits))
    ),
    (
        SELECT groupArray((id, seen_at, service, conversation_id, exchange_id, role))
        FROM
        (
            SELECT id, seen_at, toString(service) AS service, conversation_id, exchange_id, toString(role) AS role
            FROM places
            WHERE {filter history}
            ORDER BY seen_at DESC, exchange_id
            LIMIT {limit:UInt32}
        )
    ) AS newest
SELECT
    place.2 AS seen_at,
    place.3 AS service,
    place.4 AS conversation_id,
    place.5 AS exchange_id,
    place.6 AS role,
    concat(if(m.at > 21, '…', ''), substringUTF8(m.text, greatest(1, m.at - 20), 200)) AS excerpt
FROM
(
    SELECT arrayJoin(newest) AS place, place.1 AS id
) AS p
INNER JOIN
(
    SELECT id, any(body) AS text, toInt64(positionCaseInsensitiveUTF8(text, {text:String})) AS at
    FROM messages
    WHERE id IN (SELECT arrayJoin(newest).1)
    GROUP BY id
) AS m ON m.id = p.id
ORDER BY seen_at DESC, exchange_id
LIMIT 50
