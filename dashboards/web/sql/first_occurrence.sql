-- Since when do calls fail with a cause, and which version introduced it?
-- since 7 days
-- param cause = : only this cause
-- The last clean version made calls of the stage before the first failure and never failed with this cause, in so many calls that
-- at the share of the versions that do, it would have with a probability of 95%. SDK retries and calls cancelled by the agent are not
-- counted. For causes that are
-- independent of the version, such as rate_limit, the first version is merely the first one affected. A filter by status selects
-- the failures that count, a filter by version the causes that the version shows.
{first failures}
ORDER BY first_seen DESC, failed_calls DESC, service, stage, cause, root_cause
LIMIT 100
