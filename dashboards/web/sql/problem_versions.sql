-- In which versions, and when, does a problem hit calls?
-- since 1 hour
-- param why = : only failures with this cause or root cause
-- param rules = : calls with findings of these rules or root causes, separated by commas, instead of failed calls
-- param step = 60: seconds of a bar
WITH {hit}
SELECT
    toString(service_version) AS version,
    toDateTime(intDiv(toUnixTimestamp(started_at), {step:UInt32}) * {step:UInt32}, 'UTC') AS time,
    countIf(hit) AS hits,
    count() AS calls
FROM exchanges_final
WHERE {filter exchanges EXCEPT version}
    AND {counted}
GROUP BY version, time
ORDER BY time, version
LIMIT 20000
