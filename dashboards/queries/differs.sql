-- What do these calls have in common, and others not? Versions, models, regions, tools, users and attributes, also in pairs and threes.
-- group Failures
-- since 1 hour
-- param why = : only failures with this cause or root cause
-- param rules = : calls with findings of these rules or root causes, separated by commas, instead of failed calls
-- param hits = : calls with these values, such as version=2.4.0,tenant=acme, instead of failed calls
-- param slower = 0: calls that took this number of seconds or more, instead of failed calls
-- param hits_since = : calls since this time, instead of failed calls
-- param hits_until = : calls before this time
-- param sample = 20000: about the maximum number of calls of each of the two groups that are compared
-- The row has the calls by the values that differ most, which llmtap combines: bit i of masks stands for the value i of attributes
-- and values, from 1. Calls are compared with all others that the filters select. SDK retries and cancelled calls are not compared.
WITH
    arrayFilter(h -> h != '', splitByChar(',', {hits:String})) AS wanted,
    {hits_since:DateTime64(9, 'UTC')} < toDateTime64('2200-01-01', 9, 'UTC') AS windowed,
    wanted != [] OR windowed OR {slower:Float64} > 0 AS chosen,
    arrayFilter(p -> p.2 != '', arrayConcat(
        [
            ('service', toString(service)), ('stage', toString(stage)), ('version', toString(service_version)), ('environment', toString(environment)),
            ('provider', toString(provider)), ('model', toString(model)), ('server', toString(server)), ('agent', toString(agent)), ('SDK', toString(sdk)),
            ('instance', instance), ('user', user), ('streaming', if(stream, 'yes', 'no')), ('system prompt', if(prompt_hash = 0, '', lower(hex(prompt_hash)))),
            ('declared tools', if(tools_hash = 0, '', lower(hex(tools_hash)))),
            ('status', if(chosen, toString(status), '')), ('cause', if(chosen, toString(cause), '')), ('finish reason', if(chosen, toString(finish_reason), ''))
        ],
        arrayMap(t -> ('tool', toString(t)), arrayDistinct(tools)),
        arrayMap(n -> ('history', concat(toString(n), ' or more messages')), arrayFilter(n -> messages >= n, [2, 3, 4, 6, 11, 21, 51, 101, 201])),
        arrayMap(n -> ('history', concat('at most ', toString(n), if(n = 1, ' message', ' messages'))), arrayFilter(n -> messages BETWEEN 1 AND n, [1, 2, 5, 10])),
        arrayMap(n -> ('size', concat(toString(n), ' kB or more')), arrayFilter(n -> request_bytes >= 1000 * n, [10, 100, 1000])),
        arrayMap((k, v) -> (concat('attribute ', toString(k)), v), mapKeys(attributes), mapValues(attributes)),
        arrayMap((k, v) -> (concat('parameter ', toString(k)), v), mapKeys(settings), mapValues(settings)))) AS all_pairs,
    multiIf(
        chosen, (wanted = [] OR hasAll(arrayMap(p -> concat(replaceOne(p.1, 'attribute ', ''), '=', p.2), all_pairs), wanted))
            AND (NOT windowed OR started_at >= {hits_since:DateTime64(9, 'UTC')})
            AND started_at < {hits_until:DateTime64(9, 'UTC')}
            AND duration >= {slower:Float64},
        {rules:String} = '', failed AND {why:String} IN ('', cause, root_cause),
        exchange_id IN
        (
            SELECT exchange_id
            FROM findings_final
            WHERE {rules:String} != ''
                AND {filter findings ONLY time, service, stage}
                AND hasAny(splitByChar(',', {rules:String}), [toString(rule_id), toString(root_cause)])
        )) AS hit,
    (
        SELECT (countIf(hit), countIf(NOT hit))
        FROM exchanges_final
        WHERE {filter exchanges}
            AND retry = 0
            AND error_type != 'cancelled'
    ) AS total,
    intDiv(total.1, {sample:UInt32}) + 1 AS hit_step,
    intDiv(total.2, {sample:UInt32}) + 1 AS other_step,
    calls AS
    (
        SELECT
            hit AS is_hit,
            arrayMap(p -> concat(p.1, '\n', p.2), arrayFilter(p -> NOT has(arrayMap(h -> substringIndex(h, '=', 1), wanted), replaceOne(p.1, 'attribute ', '')), all_pairs)) AS pairs
        FROM exchanges_final
        WHERE {filter exchanges}
            AND retry = 0
            AND error_type != 'cancelled'
            AND cityHash64(exchange_id) % if(hit, hit_step, other_step) = 0
    ),
    (
        SELECT groupArray(pair)
        FROM
        (
            SELECT
                arrayJoin(pairs) AS pair,
                substringIndex(pair, '\n', 1) AS name,
                countIf(is_hit) * hit_step / greatest(total.1, 1) AS hits_with,
                countIf(NOT is_hit) * other_step / greatest(total.2, 1) AS others_with
            FROM calls
            GROUP BY pair
            HAVING hits_with > others_with AND (name NOT IN ('history', 'size') OR others_with < 0.5)
            ORDER BY hits_with - others_with DESC, pair
            LIMIT 8 BY name
            LIMIT 60
        )
    ) AS picked
SELECT
    arrayMap(p -> substringIndex(p, '\n', 1), picked) AS attributes,
    arrayMap(p -> substring(p, position(p, '\n') + 1), picked) AS values,
    groupArray(mask) AS masks,
    groupArray(hits_of) AS leaf_hits,
    groupArray(others_of) AS leaf_others,
    total.1 AS all_hits,
    total.2 AS all_others,
    hit_step AS hits_each,
    other_step AS others_each
FROM
(
    SELECT
        arraySum(p -> bitShiftLeft(toUInt64(1), indexOf(picked, p)), arrayIntersect(pairs, picked)) AS mask,
        countIf(is_hit) AS hits_of,
        countIf(NOT is_hit) AS others_of
    FROM calls
    GROUP BY mask
)
HAVING all_hits > 0
LIMIT 12
