-- Who is hit? Failed calls by user, and by each attribute such as tenant.
-- group Failures
-- since 1 hour
-- param cause = : count only failures with this cause
-- param by = : list only the values of this attribute, or of user
-- At most 10 values of each attribute. others_percent is the share of failed calls of everyone else. SDK retries and calls cancelled by the agent are not counted.
WITH
    failed AND {filter exchanges ONLY status} AND ({cause:String} = '' OR cause = {cause:String}) AS hit,
    (
        SELECT (count(), countIf(hit))
        FROM exchanges_final
        WHERE {filter exchanges EXCEPT status}
            AND retry = 0
            AND error_type != 'cancelled'
    ) AS total
SELECT
    pair.1 AS attribute,
    pair.2 AS value,
    countIf(hit) AS failed_calls,
    count() AS calls,
    round(100 * failed_calls / calls, 1) AS failed_percent,
    if(total.1 = calls, NULL, round(100 * (total.2 - failed_calls) / (total.1 - calls), 1)) AS others_percent,
    uniqExactIf(conversation_id, hit AND conversation_id != '') AS conversations
FROM exchanges_final
ARRAY JOIN arrayFilter(p -> p.2 != '' AND {by:String} IN ('', p.1), arrayConcat([('user', user)],
    arrayMap((k, v) -> (toString(k), v), mapKeys(attributes), mapValues(attributes)))) AS pair
WHERE {filter exchanges EXCEPT status}
    AND retry = 0
    AND error_type != 'cancelled'
GROUP BY attribute, value
HAVING failed_calls > 0
ORDER BY attribute = 'user', attribute, failed_calls DESC, value
LIMIT 10 BY attribute
LIMIT 100
