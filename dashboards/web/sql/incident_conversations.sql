-- Which conversations and users are hit by a cause, and did they recover?
-- since 1 hour
-- param why = : only failures with this cause or root cause
-- param rules = : calls with findings of these rules or root causes, separated by commas, instead of failed calls
-- param measure = : calls with more of this measure than above, or whose answers end like this, instead of failed calls
-- param above = 0: see measure
-- A conversation recovered if one of its calls, in any stage, succeeded after its last hit call. Numbers of all are in each row.
WITH
    {hit},
    hit AND {counted} AND {filter exchanges} AS counted
SELECT
    conversation_id,
    user_hash,
    hits,
    last_hit,
    last_id,
    last_version,
    recovered,
    count() OVER () AS conversations,
    countIf(recovered) OVER () AS all_recovered,
    uniqExactIf(user_hash, user_hash != '') OVER () AS users
FROM
(
    SELECT
        conversation_id,
        anyIf(user, counted) AS user_hash,
        countIf(counted) AS hits,
        maxIf(started_at, counted) AS last_hit,
        argMaxIf(exchange_id, started_at, counted) AS last_id,
        toString(argMaxIf(service_version, started_at, counted)) AS last_version,
        maxIf(started_at, NOT failed) > last_hit AS recovered
    FROM exchanges FINAL
    WHERE {filter exchanges ONLY time, service, environment}
        AND conversation_id IN
        (
            SELECT conversation_id
            FROM exchanges FINAL
            WHERE counted
                AND conversation_id != ''
        )
    GROUP BY conversation_id
    HAVING hits > 0
)
ORDER BY recovered, last_hit DESC, conversation_id
LIMIT 10
