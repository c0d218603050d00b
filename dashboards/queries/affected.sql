-- Who is hit? Failed calls by user, and by each attribute such as tenant.
-- group Failures
-- since 1 hour
-- param cause = : count only failures with this cause
-- param by = : list only the values of this attribute, or of user
-- At most 10 values of each attribute. others_percent is the share of failed calls of everyone else. SDK retries and calls cancelled by the agent are not counted.
WITH
    failed AND {filter exchanges ONLY status} AND ({cause:String} = '' OR cause = {cause:String}) AS hit,
    groups AS
    (
        SELECT 'user' AS attribute, user AS value, countIf(hit) AS hits, count() AS n, uniqExactIf(conversation_id, hit AND conversation_id != '' AND user != '') AS hit_conversations, true AS everyone
        FROM exchanges FINAL
        WHERE {filter exchanges EXCEPT status}
            AND {counted}
        GROUP BY user
        UNION ALL
        SELECT toString(key) AS attribute, attributes[key] AS value, countIf(hit), count(), uniqExactIf(conversation_id, hit AND conversation_id != ''), false
        FROM exchanges FINAL
        ARRAY JOIN mapKeys(attributes) AS key
        WHERE {filter exchanges EXCEPT status}
            AND {counted}
            AND {by:String} IN ('', key)
        GROUP BY attribute, value
    )
SELECT
    attribute,
    value,
    hits AS failed_calls,
    n AS calls,
    {percent failed_calls of calls} AS failed_percent,
    {percent all_failed - failed_calls of all_calls - calls} AS others_percent,
    hit_conversations AS conversations
FROM
(
    SELECT *, sumIf(n, everyone) OVER () AS all_calls, sumIf(hits, everyone) OVER () AS all_failed
    FROM groups
)
WHERE value != ''
    AND {by:String} IN ('', attribute)
    AND failed_calls > 0
ORDER BY attribute = 'user', attribute, failed_calls DESC, value
LIMIT 10 BY attribute
LIMIT 100
