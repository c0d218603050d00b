-- Did a call fail with a cause?
-- since 1 hour
-- param why: failures with this cause or root cause
-- The first row suffices, so rows that are stored several times are not merged.
SELECT 1 AS failed_calls
FROM exchanges
WHERE {filter exchanges}
    AND failed
    AND {why:String} IN (cause, root_cause)
    AND {counted}
LIMIT 1
