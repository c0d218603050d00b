-- What did the provider answer, and what is wrong in the request?
-- since 1 hour
-- param why = : only failures with this cause or root cause
-- param rules = : calls with findings of these rules or root causes, separated by commas, instead of failed calls
-- param measure = : calls with more of this measure than above, or whose answers end like this, instead of failed calls
-- param above = 0: see measure
-- One call for each wording of the error, the most frequent wordings first, with the worst finding about it.
WITH
    {hit},
    (
        SELECT groupArray((n, c))
        FROM
        (
            SELECT
                count() AS n,
                argMax((exchange_id, conversation_id, started_at, status, toString(provider), toString(model), error_text, provider_request_id, toString(service_version), toString(code)), (findings > 0 OR exchange_id IN
                (
                    SELECT exchange_id
                    FROM findings FINAL
                    WHERE rule_id = 'cache_broken'
                        AND has(splitByChar(',', {rules:String}), detail)
                        AND {filter findings ONLY time, service, stage}
                ), started_at)) AS c
            FROM exchanges FINAL
            WHERE hit
                AND {filter exchanges}
                AND {counted}
            GROUP BY error_cluster
            ORDER BY n DESC, c.3 DESC
            LIMIT 3
        )
    ) AS found,
    calls AS
    (
        SELECT
            arrayJoin(found) AS x,
            x.1 AS n,
            x.2.1 AS exchange_id,
            x.2.2 AS conversation_id,
            x.2.3 AS started_at,
            x.2.4 AS status,
            x.2.5 AS provider,
            x.2.6 AS model,
            x.2.7 AS error_text,
            x.2.8 AS provider_request_id,
            x.2.9 AS service_version,
            x.2.10 AS code
    )
SELECT
    c.n AS n,
    c.exchange_id AS exchange_id,
    c.conversation_id AS conversation_id,
    c.started_at AS started_at,
    c.status AS status,
    c.provider AS provider,
    c.model AS model,
    c.error_text AS error_text,
    c.provider_request_id AS provider_request_id,
    c.service_version AS service_version,
    c.code AS code,
    f.answer_code AS answer_code,
    f.rule_id AS rule_id,
    f.message_index AS message_index,
    f.tool_call_id AS tool_call_id,
    f.summary AS summary,
    f.evidence AS evidence,
    f.root_cause AS root_cause,
    f.confidence AS confidence,
    f.fix AS fix
FROM calls AS c
LEFT JOIN
(
    SELECT exchange_id, toString(rule_id) AS rule_id, toString(answer_code) AS answer_code, message_index, tool_call_id, summary, evidence, toString(root_cause) AS root_cause, toString(confidence) AS confidence, fix
    FROM findings FINAL
    WHERE conversation_id IN (SELECT conversation_id FROM calls)
        AND exchange_id IN (SELECT exchange_id FROM calls)
    ORDER BY hasAny(splitByChar(',', {rules:String}), [rule_id, root_cause, if(rule_id = 'cache_broken', detail, '')]) DESC, severity = 'reject' DESC, severity != 'signal' DESC, message_index
    LIMIT 1 BY exchange_id
) AS f ON f.exchange_id = c.exchange_id
ORDER BY n DESC, started_at DESC
LIMIT 3
