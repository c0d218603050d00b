-- Which alerts fired, how severe were they, and why?
-- group Failures
-- since 7 days
-- Alerts that are still firing are always listed.
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
    silenced_by,
    summary,
    example AS exchange_id
FROM alerts FINAL
WHERE (started_at >= {since:DateTime64(9, 'UTC')} OR state = 'firing')
    AND started_at < {until:DateTime64(9, 'UTC')}
    AND {filter alerts EXCEPT time}
ORDER BY state = 'firing' DESC, started_at DESC
LIMIT 100
