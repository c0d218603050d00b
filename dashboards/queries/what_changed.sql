-- What changed besides the version: prompt, tools, parameters, model, provider?
-- group Whose change
-- since 1 day
-- param what = : only changes of this part, such as system prompt, tools, model or temperature
-- Changes shortly before the first failure of a cause come first. A part that has more than 20 values in a stage, or a new value
-- in every fifth call, is omitted: it varies from call to call. So is a part whose value did not change within the time range.
-- "Also" means that the old value is still used. In shape mode, prompts are compared by the lengths of their texts, so a change that keeps the length is not seen.
WITH
    combinations AS
    (
        SELECT
            service,
            stage,
            capture,
            service_version,
            environment,
            provider,
            model,
            server,
            sdk,
            messages > 0 AND NOT degraded AS readable,
            prompt_hash,
            tools_hash,
            any(tools) AS tool_names,
            settings,
            count() AS n,
            countIf(failed) AS failed_n,
            min(started_at) AS began,
            max(started_at) AS ended
        FROM exchanges FINAL
        WHERE {filter exchanges EXCEPT status}
        GROUP BY service, stage, capture, service_version, environment, provider, model, server, sdk, readable, prompt_hash, tools_hash, settings
    ),
    with_settings AS
    (
        SELECT *, groupUniqArrayArray(mapKeys(settings)) OVER (PARTITION BY service, stage) AS all_settings
        FROM combinations
    ),
    parts AS
    (
        SELECT
            service,
            stage,
            part.1 AS what,
            part.2 AS value,
            argMin(toString(service_version), began) AS version,
            any(arraySort(tool_names)) AS names,
            sum(n) AS calls,
            sum(failed_n) AS failed_calls,
            min(began) AS first_at,
            max(ended) AS last_at
        FROM with_settings
        ARRAY JOIN arrayConcat(
            [('version', toString(service_version)), ('environment', toString(environment)), ('provider', toString(provider)), ('model', toString(model)),
                ('server', toString(server)), ('hook', toString(sdk)), ('capture', toString(capture))],
            if(readable, [(concat('system prompt', if(capture = 'shape', ' (shape)', '')), if(prompt_hash = 0, '', lower(hex(prompt_hash)))),
                (concat('tools', if(capture = 'shape', ' (shape)', '')), if(tools_hash = 0, '', lower(hex(tools_hash))))], []),
            if(readable, arrayMap(k -> (toString(k), settings[k]), all_settings), [])) AS part
        GROUP BY service, stage, what, value
    ),
    series AS
    (
        SELECT
            service,
            stage,
            what,
            arraySort(groupArray((first_at, last_at, value, calls, failed_calls, version, names))) AS all
        FROM parts
        GROUP BY service, stage, what
        HAVING length(all) > 1
            AND length(all) <= 20
            AND length(all) * 5 <= greatest(10, sum(calls))
    ),
    onsets AS
    (
        SELECT service, stage, groupArray((first_failure, toString(cause))) AS causes
        FROM
        (
            SELECT service, stage, cause, min(started_at) AS first_failure
            FROM exchanges FINAL
            WHERE failed
                AND {filter exchanges}
            GROUP BY service, stage, cause
        )
        GROUP BY service, stage
    ),
    i - 1 AS before,
    all[i] AS new,
    all[before] AS old,
    if(new.3 = '', 'none', new.3) AS new_text,
    if(old.3 = '', 'none', old.3) AS old_text,
    arrayFilter(t -> NOT has(old.7, t), new.7) AS added,
    arrayFilter(t -> NOT has(new.7, t), old.7) AS removed,
    arraySort(arrayFilter(c -> c.1 >= new.1 - INTERVAL 10 SECOND, causes)) AS following
SELECT
    new.1 AS changed_at,
    concat(
        what,
        if(old.2 < new.2, ' changed', ' also'),
        if(what = 'version' OR new.6 = '', '', concat(' in ', new.6)),
        multiIf(
            startsWith(what, 'tools') AND notEmpty(arrayConcat(added, removed)), concat(':',
                if(empty(added), '', concat(' added ', arrayStringConcat(added, ', '))),
                if(empty(added) OR empty(removed), '', ';'),
                if(empty(removed), '', concat(' removed ', arrayStringConcat(removed, ', ')))),
            startsWith(what, 'tools'), concat(': the declarations of the same names, ', old_text, ' to ', new_text),
            old.2 < new.2, concat(' from ', old_text, ' to ', new_text),
            concat(' ', new_text, ', beside ', old_text))) AS change,
    service,
    stage,
    new.4 AS calls,
    {percent new.5 of new.4} AS failed_percent,
    {percent old.5 of old.4} AS failed_percent_before,
    following[1].2 AS next_failure,
    if(empty(following), NULL, greatest(0, dateDiff('second', new.1, following[1].1))) AS seconds_to_failure
FROM series AS s
LEFT JOIN onsets AS o ON o.service = s.service AND o.stage = s.stage
ARRAY JOIN arraySlice(arrayEnumerate(all), 2) AS i
WHERE {what:String} IN ('', what, replaceOne(what, ' (shape)', ''))
ORDER BY seconds_to_failure ASC NULLS LAST, changed_at DESC, service, stage, change
LIMIT 50
