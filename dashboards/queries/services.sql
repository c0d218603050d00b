-- How do the calls of each service arrive, and what cannot be seen of them?
-- group Capture
-- since 1 hour
-- origin is hook, proxy, http, otlp or import. bodies lists the capture modes. degraded are calls of which parts may be missing, so
-- that nothing follows from their absence. without_id are calls whose conversation was not set: it is inferred from responses or
-- unknown. Calls that a hook cannot capture have no rows: llmtap doctor counts them.
SELECT
    service,
    origin,
    sdk,
    count() AS calls,
    uniqExact(instance) AS processes,
    arraySort(groupUniqArray(if(capture = '', 'full', capture))) AS bodies,
    countIf(degraded) AS degraded,
    countIf(conversation_id = '' OR inferred) AS without_id,
    max(stored_at) AS newest_at
FROM exchanges FINAL
WHERE {filter exchanges}
GROUP BY service, origin, sdk
ORDER BY service, calls DESC, origin, sdk
LIMIT 100
