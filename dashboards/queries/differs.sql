-- What do these calls have in common, and others not? Versions, models, regions, tools, users and attributes, also in pairs and threes.
-- group Failures
-- since 1 hour
-- param why = : only failures with this cause or root cause
-- param rules = : calls with findings of these rules or root causes, separated by commas, instead of failed calls
-- param hits = : calls with these values of filters or attributes, such as version=2.4.0,tenant=acme, instead of failed calls
-- param measure = : calls with more of this than above, instead of failed calls: duration, first_token, input_tokens, output_tokens, history; or answer_limit, answer_filtered
-- param above = 0: seconds, tokens or messages
-- param slower = 0: calls that took this number of seconds or more, instead of failed calls
-- param hits_since = : calls since this time, instead of failed calls
-- param hits_until = : calls before this time
-- param sample = 5000: about the maximum number of calls of each of the two groups that are compared
-- The row has compared calls with their values, which llmtap combines. Calls are compared with all others that the filters select. SDK
-- retries and cancelled calls are not compared.
WITH
    arrayFilter(h -> h != '', splitByChar(',', {hits:String})) AS wanted,
    {hits_since:DateTime64(9, 'UTC')} < toDateTime64('2200-01-01', 9, 'UTC') AS windowed,
    wanted != [] OR windowed OR {slower:Float64} > 0 AS chosen,
    multiIf(
        {measure:String} != '', {measured} AND (NOT windowed OR started_at >= {hits_since:DateTime64(9, 'UTC')}),
        chosen,
            {chosen exchanges}
            AND (NOT windowed OR started_at >= {hits_since:DateTime64(9, 'UTC')})
            AND started_at < {hits_until:DateTime64(9, 'UTC')}
            AND duration >= {slower:Float64},
        {rules:String} = '', failed AND {why:String} IN ('', cause, root_cause),
        exchange_id IN
        (
            SELECT exchange_id
            FROM findings FINAL
            WHERE {rules:String} != ''
                AND {filter findings ONLY time, service, stage}
                AND hasAny(splitByChar(',', {rules:String}), [toString(rule_id), toString(root_cause)])
        ) OR cache_break != '' AND has(splitByChar(',', {rules:String}), toString(cache_break))) AS hit,
    (
        SELECT (countIf(hit), countIf(NOT hit))
        FROM exchanges FINAL
        WHERE {filter exchanges}
            AND {counted}
    ) AS total,
    intDiv(total.1, {sample:UInt32}) + 1 AS hit_step,
    intDiv(total.2, {sample:UInt32}) + 1 AS other_step
SELECT
    groupArray(toUInt8(hit)) AS is_hit,
    groupArray(arrayConcat(
        [
            concat('service\n', service), concat('stage\n', stage), concat('version\n', service_version), concat('environment\n', environment),
            concat('provider\n', provider), concat('model\n', model), concat('server\n', server), concat('agent\n', agent), concat('SDK\n', sdk),
            concat('instance\n', instance), concat('user\n', user), if(stream, 'streaming\nyes', 'streaming\nno'),
            concat('system prompt\n', if(prompt_hash = 0, '', lower(hex(prompt_hash)))), concat('declared tools\n', if(tools_hash = 0, '', lower(hex(tools_hash)))),
            concat('status\n', if(chosen AND {measure:String} = '', toString(status), '')), concat('cause\n', if(chosen AND {measure:String} = '', toString(cause), '')), concat('finish reason\n', if(chosen AND {measure:String} NOT LIKE 'answer%', toString(finish_reason), ''))
        ],
        arrayMap(t -> concat('tool\n', t), arrayDistinct(tools)),
        arrayMap(n -> concat('history\n', toString(n), ' or more messages'), arrayFilter(n -> messages >= n, [2, 3, 4, 6, 11, 21, 51, 101, 201])),
        arrayMap(n -> concat('history\nat most ', toString(n), if(n = 1, ' message', ' messages')), arrayFilter(n -> messages BETWEEN 1 AND n, [1, 2, 5, 10])),
        arrayMap(n -> concat('size\n', toString(n), ' kB or more'), arrayFilter(n -> request_bytes >= 1000 * n, [10, 100, 1000])),
        arrayMap((k, v) -> concat('attribute ', k, '\n', substring(v, 1, 200)), mapKeys(attributes), mapValues(attributes)),
        arrayMap((k, v) -> concat('parameter ', k, '\n', substring(v, 1, 200)), mapKeys(settings), mapValues(settings)))) AS values,
    wanted AS wanted_values,
    total.1 AS all_hits,
    total.2 AS all_others,
    hit_step AS hits_each,
    other_step AS others_each
FROM exchanges FINAL
WHERE {filter exchanges}
    AND {counted}
    AND cityHash64(exchange_id) % if(hit, hit_step, other_step) = 0
HAVING all_hits > 0
LIMIT 12
