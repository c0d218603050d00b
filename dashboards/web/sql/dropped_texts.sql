-- Of which services are the texts of some calls not stored?
-- since 7 days
SELECT DISTINCT service
FROM exchanges
WHERE {filter exchanges}
    AND texts_dropped != ''
ORDER BY service
LIMIT 5
