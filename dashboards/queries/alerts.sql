-- Which alerts fired, how bad were they, and why?
-- param since = 7 days: how far back to look
SELECT
    started_at,
    ended_at,
    state,
    severity,
    name,
    labels,
    failed,
    calls,
    round(peak, 3) AS peak_value,
    shares,
    first_bad,
    last_clean,
    summary,
    example AS exchange_id
FROM alerts_final
WHERE started_at > now() - toIntervalSecond(toUInt32(parseTimeDelta({since:String})))
    OR state = 'firing'
ORDER BY state = 'firing' DESC, started_at DESC
LIMIT 100
