-- Do the stored bodies have texts, or are they only shapes?
SELECT count() AS bodies, countIf(match(body, '"~[0-9]+:[0-9a-f]{16}')) AS shapes
FROM
(
    SELECT body
    FROM messages
    WHERE kind = 'message'
    ORDER BY id DESC
    LIMIT 100
)
