-- Which versions failed, over time?
-- since 1 hour
-- param step = 60: seconds of a bar
SELECT
    toDateTime(intDiv(toUnixTimestamp(started_at), {step:UInt32}) * {step:UInt32}, 'UTC') AS time,
    concat(service, ' ', service_version) AS version,
    count() AS n
FROM exchanges FINAL
WHERE failed
    AND {filter exchanges EXCEPT version}
    AND {counted}
GROUP BY time, version
ORDER BY time, version
LIMIT 20000
