-- Which causes made calls fail, over time?
-- since 1 hour
-- param step = 60: seconds of a bar
SELECT
    toDateTime(intDiv(toUnixTimestamp(started_at), {step:UInt32}) * {step:UInt32}, 'UTC') AS time,
    {reason} AS why,
    count() AS n
FROM exchanges FINAL
WHERE failed
    AND {filter exchanges}
    AND {counted}
GROUP BY time, why
ORDER BY time, why
LIMIT 20000
