-- Which attributes do calls hit by a cause have more often than the others?
-- since 1 hour
-- param why = : only failures with this cause or root cause
-- param rules = : calls with findings of these rules or root causes, separated by commas, instead of failed calls
-- param sample = 20000: about the maximum number of calls of each of the two groups that are compared
-- The row without an attribute has the numbers of compared calls. A call is in
-- several rows of an attribute with several values, such as tools, and in each row of a minimum or maximum that it meets.
WITH
    {hit},
    (
        SELECT (countIf(hit), countIf(NOT hit))
        FROM exchanges_final
        WHERE {filter exchanges}
            AND {counted}
    ) AS total,
    intDiv(total.1, {sample:UInt32}) + 1 AS hit_step,
    intDiv(total.2, {sample:UInt32}) + 1 AS other_step
SELECT
    pair.1 AS attribute,
    pair.2 AS value,
    countIf(hit) AS hits,
    countIf(NOT hit) AS others,
    total.1 AS all_hits,
    total.2 AS all_others
FROM exchanges_final
ARRAY JOIN arrayFilter(p -> p.1 = '' OR p.2 != '', arrayConcat(
    [
        ('', ''), ('service', toString(service)), ('stage', toString(stage)), ('version', toString(service_version)), ('environment', toString(environment)),
        ('provider', toString(provider)), ('model', toString(model)), ('server', toString(server)), ('agent', toString(agent)), ('SDK', toString(sdk)),
        ('instance', instance), ('user', user), ('streaming', if(stream, 'yes', 'no')), ('system prompt', if(prompt_hash = 0, '', lower(hex(prompt_hash))))
    ],
    arrayMap(t -> ('tool', toString(t)), arrayDistinct(tools)),
    arrayMap(n -> ('history', concat(toString(n), ' or more messages')), arrayFilter(n -> messages >= n, [2, 3, 4, 6, 11, 21, 51, 101, 201])),
    arrayMap(n -> ('history', concat('at most ', toString(n), if(n = 1, ' message', ' messages'))), arrayFilter(n -> messages BETWEEN 1 AND n, [1, 2, 5, 10])),
    arrayMap(n -> ('size', concat(toString(n), ' kB or more')), arrayFilter(n -> request_bytes >= 1000 * n, [10, 100, 1000])),
    arrayMap((k, v) -> (concat('attribute ', toString(k)), v), mapKeys(attributes), mapValues(attributes)),
    arrayMap((k, v) -> (concat('parameter ', toString(k)), v), mapKeys(settings), mapValues(settings)))) AS pair
WHERE {filter exchanges}
    AND {counted}
    AND cityHash64(exchange_id) % if(hit, hit_step, other_step) = 0
GROUP BY attribute, value
HAVING hits > 0 OR attribute = ''
ORDER BY attribute != '', hits * hit_step / greatest(total.1, 1) - others * other_step / greatest(total.2, 1) DESC, attribute, value
LIMIT 300
