-- When did a version of a service make its first calls?
-- since 1 hour
-- A version counts as new if another version of the service was seen before it, within the range.
SELECT service, version.2 AS new_version, version.1 AS began
FROM
(
    SELECT service, arraySort(groupArray((first_call, v))) AS versions
    FROM
    (
        SELECT service, toString(service_version) AS v, min(started_at) AS first_call
        FROM exchanges FINAL
        WHERE {filter exchanges EXCEPT version, status}
        GROUP BY service, v
        HAVING v != ''
    )
    GROUP BY service
)
ARRAY JOIN arraySlice(versions, 2) AS version
ORDER BY began DESC
LIMIT 50
