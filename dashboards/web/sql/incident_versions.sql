-- How many calls of each version are hit by a cause?
-- since 1 hour
-- param why = : only failures with this cause or root cause
-- param rules = : calls with findings of these rules or root causes, separated by commas, instead of failed calls
-- param measure = : calls with more of this measure than above, or whose answers end like this, instead of failed calls
-- param above = 0: see measure
WITH {hit}
SELECT service, toString(service_version) AS version, countIf(hit) AS hits, count() AS calls, min(started_at) AS began
FROM exchanges FINAL
WHERE {filter exchanges EXCEPT version}
    AND {counted}
GROUP BY service, version
HAVING version != ''
ORDER BY began DESC, service, version
LIMIT 6
