-- Which requests were retried although the rejection was final, and how much did that waste?
-- group Failures
-- since 1 day
-- param cause = : only this cause
-- A request rejected with 400, 404, 413 or 422 fails again when it is sent again. A retry is an SDK retry, or a request of the
-- same conversation with the same number of messages and bytes that failed with the same cause. Providers do not report tokens
-- of rejected requests: about_tokens is estimated from the tokens per byte of accepted requests to the same model (NULL if there
-- are none).
WITH
    refused AS
    (
        SELECT
            service,
            stage,
            provider,
            model,
            cause,
            status,
            count() AS n,
            countIf(retry > 0) AS by_sdk,
            if(conversation_id = '', by_sdk, greatest(n - 1, by_sdk)) AS again,
            request_bytes * again AS bytes,
            avg(duration) * again AS seconds,
            any(conversation_id) AS conversation
        FROM exchanges FINAL
        WHERE failed
            AND status IN (400, 404, 413, 422)
            AND {filter exchanges}
            AND ({cause:String} = '' OR cause = {cause:String})
        GROUP BY service, stage, provider, model, cause, status, conversation_id, messages, request_bytes
    ),
    {accepted}
SELECT
    r.service AS service,
    r.stage AS stage,
    r.provider AS provider,
    r.model AS model,
    r.cause AS cause,
    r.status AS status,
    sum(r.n) AS refused_calls,
    sum(r.again) AS wasted_calls,
    sum(r.by_sdk) AS by_sdk,
    sum(r.bytes) AS wasted_bytes,
    round(if(any(a.tokens_per_byte) > 0, wasted_bytes * any(a.tokens_per_byte), NULL)) AS about_tokens,
    round(sum(r.seconds), 1) AS wasted_seconds,
    argMax(r.conversation, r.again) AS worst_conversation_id
FROM refused AS r
LEFT JOIN accepted AS a ON a.provider = r.provider AND a.model = r.model
GROUP BY service, stage, provider, model, cause, status
HAVING wasted_calls > 0
ORDER BY wasted_calls DESC, service, stage, provider, model, cause, status
LIMIT 100
