-- Which alerts are about a problem?
-- param id: id of the problem
SELECT alert_id, name, severity, state, labels, summary, started_at, ended_at
FROM alerts FINAL
WHERE problem = {id:String}
ORDER BY started_at DESC, alert_id
LIMIT 100
