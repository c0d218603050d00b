-- Who is hit? Failed calls by user, and by each attribute such as tenant.
-- group Failures
-- since 1 hour
-- param cause = : count only failures with this cause
-- param by = : list only the values of this attribute, or of user
-- At most 10 values of each attribute. others_percent is the share of failed calls of everyone else. SDK retries and calls cancelled by the agent are not counted.
-- The calls of everyone are counted as those of an attribute without a name.
WITH
    failed AND {filter exchanges ONLY status} AND ({cause:String} = '' OR cause = {cause:String}) AS hit,
    groups AS
    (
        SELECT
            pair.1 AS attribute,
            pair.2 AS value,
            countIf(hit) AS hits,
            count() AS n,
            uniqExactIf(conversation_id, hit AND conversation_id != '' AND attribute != '') AS hit_conversations
        FROM exchanges_final
        ARRAY JOIN arrayFilter(p -> p.1 = '' OR p.2 != '' AND {by:String} IN ('', p.1), arrayConcat([('', ''), ('user', user)],
            arrayMap((k, v) -> (toString(k), v), mapKeys(attributes), mapValues(attributes)))) AS pair
        WHERE {filter exchanges EXCEPT status}
            AND retry = 0
            AND error_type != 'cancelled'
        GROUP BY attribute, value
    )
SELECT
    attribute,
    value,
    hits AS failed_calls,
    n AS calls,
    round(100 * failed_calls / calls, 1) AS failed_percent,
    if(all_calls = calls, NULL, round(100 * (all_failed - failed_calls) / (all_calls - calls), 1)) AS others_percent,
    hit_conversations AS conversations
FROM
(
    SELECT *, max(if(attribute = '', n, 0)) OVER () AS all_calls, max(if(attribute = '', hits, 0)) OVER () AS all_failed
    FROM groups
)
WHERE attribute != ''
    AND failed_calls > 0
ORDER BY attribute = 'user', attribute, failed_calls DESC, value
LIMIT 10 BY attribute
LIMIT 100
