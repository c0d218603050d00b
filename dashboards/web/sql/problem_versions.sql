-- In which versions, and when, does a problem hit calls?
-- since 1 hour
-- param why = : only failures with this cause or root cause
-- param rules = : calls with findings of these rules or root causes, separated by commas, instead of failed calls
-- param measure = : calls with more of this measure than above, or whose answers end like this, instead of failed calls
-- param above = 0: see measure
-- param step = 60: seconds of a bar
WITH {hit}
SELECT
    toString(service_version) AS version,
    toDateTime(intDiv(toUnixTimestamp(started_at), {step:UInt32}) * {step:UInt32}, 'UTC') AS time,
    countIf(hit) AS hits,
    count() AS calls
FROM exchanges FINAL
WHERE {filter exchanges EXCEPT version}
    AND {counted}
GROUP BY version, time
ORDER BY time, version
LIMIT 20000
