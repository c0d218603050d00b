-- Which exchange has this id of the provider?
-- since 7 days
-- param id: the whole id of a request or a response
-- These columns have no index, so the time range bounds what is read.
SELECT
    if(provider_request_id = {id:String}, 'provider request', 'response') AS kind,
    {id:String} AS id,
    exchange_id AS exchange,
    conversation_id AS conversation,
    toString(service) AS of_service,
    toString(stage) AS of_stage,
    toString(provider) AS about,
    toUInt64(1) AS calls,
    toUInt64(failed) AS failed_calls,
    started_at AS began,
    started_at AS ended
FROM exchanges
WHERE {filter exchanges ONLY time}
    AND (provider_request_id = {id:String} OR response_id = {id:String})
ORDER BY ended DESC, seq DESC
LIMIT 1 BY exchange
LIMIT 20
