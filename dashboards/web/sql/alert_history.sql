-- Which alerts fired, and when did they end?
-- since 7 days
SELECT alert_id, name, severity, state, labels, summary, started_at, ended_at, silenced_by
FROM alerts FINAL
WHERE (started_at >= {since:DateTime64(9, 'UTC')} OR state = 'firing')
    AND started_at < {until:DateTime64(9, 'UTC')}
    AND {filter alerts EXCEPT time}
ORDER BY state = 'firing' DESC, started_at DESC, alert_id
LIMIT 100
