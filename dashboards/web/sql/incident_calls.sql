-- Which calls failed with a cause?
-- since 1 hour
-- param why = : only failures with this cause or root cause
SELECT started_at, service_version, provider, model, status, cause, root_cause, conversation_id, exchange_id, error_text
FROM exchanges FINAL
WHERE failed
    AND {filter exchanges}
    AND {why:String} IN ('', cause, root_cause)
    AND {counted}
ORDER BY started_at DESC, exchange_id
LIMIT 100
