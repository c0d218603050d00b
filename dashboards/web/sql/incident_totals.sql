-- How many calls are hit by a cause, when was the last one, and how many calls were there since?
-- since 1 hour
-- param why = : only failures with this cause or root cause
-- param rules = : calls with findings of these rules or root causes, separated by commas, instead of failed calls
-- param measure = : calls with more of this measure than above, or whose answers end like this, instead of failed calls
-- param above = 0: see measure
-- guessed is the number of these calls of which the cause why is a guess.
WITH
    {hit},
    (
        SELECT (count(), countIf(hit), minIf(started_at, hit), maxIf(started_at, hit), countIf(hit AND cause = {why:String} AND cause_known = 'guessed'))
        FROM exchanges FINAL
        WHERE {filter exchanges}
            AND {counted}
    ) AS total
SELECT
    total.1 AS calls,
    total.2 AS hits,
    total.3 AS first_hit,
    total.4 AS last_hit,
    total.5 AS guessed,
    count() AS calls_since
FROM exchanges FINAL
WHERE {filter exchanges}
    AND {counted}
    AND started_at > total.4
