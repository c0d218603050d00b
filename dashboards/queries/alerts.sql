-- Which alerts fired, how severe were they, and why?
-- group Failures
-- param since = 7 days: start of the time range; alerts that are still firing are always listed
-- param until = : end of the time range
-- param service = : only this service
-- param stage = : only this stage
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
WHERE (started_at >= {since:DateTime64(9, 'UTC')} OR state = 'firing')
    AND started_at < {until:DateTime64(9, 'UTC')}
    AND ({service:String} = '' OR labels['service'] = {service:String})
    AND ({stage:String} = '' OR labels['stage'] = {stage:String})
ORDER BY state = 'firing' DESC, started_at DESC
LIMIT 100
