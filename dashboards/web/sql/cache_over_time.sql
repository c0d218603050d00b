-- Which tokens could be read from the prompt cache, and which were not, over time?
-- since 1 hour
-- param step = 60: seconds of a bar
SELECT
    toDateTime(intDiv(toUnixTimestamp(started_at), {step:UInt32}) * {step:UInt32}, 'UTC') AS time,
    toString(cache_break) AS reason,
    sum(cache_reusable_tokens) AS reusable,
    sum(cache_missed_tokens) AS missed
FROM exchanges FINAL
WHERE cache_reusable_tokens > 0
    AND {filter exchanges}
GROUP BY time, reason
ORDER BY time, reason
LIMIT 20000
