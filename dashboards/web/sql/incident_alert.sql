-- What is known of an alert?
-- param id: id of the alert
SELECT name, severity, labels, started_at, ended_at, value, failed, calls, shares, first_bad, last_clean, example, summary, silenced_by, problem
FROM alerts FINAL
WHERE alert_id = {id:String}
LIMIT 1
