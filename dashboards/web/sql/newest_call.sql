-- When did the newest stored call begin?
SELECT max(started_at) AS newest
FROM exchanges
HAVING count() > 0
