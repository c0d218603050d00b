package queries

import "regexp"

// fragments are expressions that statements share, so that a number is the same on each page and in each query. A later one may be
// part of an earlier one.
//
//	{call key}        what the parameter sort says of a call, of rows with {tokens} and dollars
//	{calls by group}  group of a call in the parameter by, of the rows {chosen calls} as c, and the prices of models
//	{first failures}  statement: the first version of each cause, and the last clean one
//	{measures}        measures of the calls of a group
//	{chosen calls}    the calls of the filters with their tokens; {chosen calls OF GROUPS} reads only the calls of the array groups if these are
//	                  conversations or runs, which have few
//	{step}            step_seconds of the parameter step
//	{latency 0.95}    seconds that 95% of the successful calls do not exceed, of calls that count; NULL without any. It is exact up
//	                  to 8,192 calls, the size of ClickHouse's sample.
//	{first_byte 0.5}  the same until the response begins
//	{tokens_per_call} mean of the calls that report their usage; NULL without any
//	{percent a of b}  as ingest/quantity.Share rounds; NULL of nothing
//	{counted}         neither a retry of an SDK nor a call that the agent cancelled; neither counts as a call
//	{said cause}      the cause, after the word probably if it is a guess; {said cause e.} that of e
//	{reason}          why a call failed: "root cause x", or else "cause x", or "probably cause x" if that is a guess
//	{group key}       what the parameter sort says of a group, of {measures}
//	{hit}             the failed calls with the cause or root cause why, or else the calls with findings of rules, or that did not read the
//	                  prompt cache for one of these reasons
//	{measured}        calls that did not fail with more of a measure than above, or whose answers end as it says
//	{cache_element}   what broke the prompt cache, without the index of a message, or of the first tool in another order
//	{cache_detail}    what changed in it, unless it is the tool
//	{price}           known and price of a model, from the parameter prices; {price x.} of that of x
//	{prices}          the parameter prices as an array, whose rows are as price.Table.Bound writes them
//	{dollars}         cost at that price of the tokens input, cached, written, hour and output; {dollars x.} of those of x
//	{model prices}    models, with the key, known and the prices of each model of the time range, and known of the model of c; without FINAL, because
//	                  the model of a replaced row only adds one that no call has. ClickHouse reads what is used
//	{model dollars}   {dollars} by {model prices}. Of a day of calls this takes half as long as a join, or as a tuple with all prices
//	{per token n}     the price that is column n of models
//	{tokens}          the tokens of a call for {dollars}
//	{later key, id}   whether a row with this key and id comes after the one of the parameter after, in descending order
//	{next key, id}    value of the parameter after for the rows that follow this one
//	{cache tokens}    sums for {dollars}: of tokens read from the cache, and of those written to it, in all and for an hour
//	{accepted}        tokens per byte of accepted requests by model
var fragments = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`\{calls by group\}`), `{model prices},
    known = 0 OR c.input_tokens IS NULL AS no_price,
    if({by:String} = 'tool', arrayJoin(arrayMap(t -> toString(t), tools)),
        if({by:String} = 'attr', arrayJoin(arrayMap((k, v) -> concat(k, '=', v), mapKeys(attributes), mapValues(attributes))),
        if({by:String} = 'all', 'all calls',
        if({by:String} = 'conversation', conversation_id,
        if({by:String} = 'run', run_id,
        if({by:String} = 'user', user,
        if({by:String} = 'service', toString(service),
        if({by:String} = 'stage', concat(toString(service), if(stage = '', '', '/'), toString(stage)),
        if({by:String} = 'version', concat(toString(service), ' ', toString(service_version)),
        if({by:String} = 'environment', toString(environment),
        if({by:String} = 'provider', toString(c.provider),
        if({by:String} = 'model', toString(c.model),
        if({by:String} = 'status', toString(status),
        if({by:String} = 'cause', if(failed, {reason}, ''),
        if(startsWith({by:String}, 'attr.'), attributes[substring({by:String}, 6)],
        ''))))))))))))))) AS what`},
	{regexp.MustCompile(`\{call key\}`), `
        if({sort:String} = 'seconds', toInt64(duration * 1e6),
        if({sort:String} = 'tokens', input + output,
        if({sort:String} = 'cost', toInt64(ifNull(dollars, 0) * 1e9),
        if({sort:String} = 'messages', toInt64(messages),
        toUnixTimestamp64Nano(started_at)))))`},
	{regexp.MustCompile(`\{group key\}`), `
        if({sort:String} = 'calls', toInt64(calls),
        if({sort:String} = 'failed', toInt64(failed_calls),
        if({sort:String} = 'failed_percent', toInt64(ifNull(failed_percent, 0) * 10),
        if({sort:String} = 'conversations', toInt64(conversations),
        if({sort:String} = 'tokens', toInt64(sum(input) + sum(output)),
        if({sort:String} = 'input_tokens', toInt64(sum(input)),
        if({sort:String} = 'cached_tokens', toInt64(sum(cached)),
        if({sort:String} = 'output_tokens', toInt64(sum(output)),
        if({sort:String} = 'tool_calls', toInt64(sum(c.tool_calls)),
        if({sort:String} = 'cost', toInt64(cost * 1e9),
        if({sort:String} = 'p50', toInt64(ifNull(p50, 0) * 1e6),
        if({sort:String} = 'p95', toInt64(ifNull(p95, 0) * 1e6),
        if({sort:String} = 'first_token', toInt64(ifNull(first_token, 0) * 1e6),
        if({sort:String} = 'seconds', toInt64(ifNull(seconds, 0) * 1e6),
        toUnixTimestamp64Nano(max(started_at))))))))))))))))`},
	{regexp.MustCompile(`\{first failures\}`), `WITH
    versions AS
    (
        SELECT
            service,
            stage,
            service_version,
            if({filter exchanges ONLY status}, cause, '') AS cause,
            root_cause,
            countIf({counted}) AS n,
            countIf(NOT failed AND retry = 0) AS clean,
            min(started_at) AS first_at,
            max(started_at) AS last_at,
            argMinIf(exchange_id, started_at, failed) AS first_id
        FROM exchanges FINAL
        WHERE {filter exchanges EXCEPT version, status}
        GROUP BY service, stage, service_version, cause, root_cause
    ),
    -- The versions of each row, with all versions of its stage and their first calls.
    with_all_versions AS
    (
        SELECT *, groupUniqArray((first_call, service_version, version_clean, version_calls)) OVER (PARTITION BY service, stage) AS all_versions
        FROM
        (
            SELECT
                *,
                min(first_at) OVER (PARTITION BY service, stage, service_version) AS first_call,
                sum(clean) OVER (PARTITION BY service, stage, service_version) AS version_clean,
                sum(n) OVER (PARTITION BY service, stage, service_version) AS version_calls
            FROM versions
        )
    ),
    groupUniqArray(service_version) AS versions_with_it,
    arrayReverseSort(arrayFilter(v -> v.1 < first_seen AND v.2 != '' AND NOT has(versions_with_it, v.2), any(all_versions)))[1] AS before,
    arraySum(v -> v.4, arrayFilter(v -> has(versions_with_it, v.2), any(all_versions))) AS calls_with_it
SELECT
    service,
    stage,
    cause,
    root_cause,
    min(first_at) AS first_seen,
    argMin(service_version, first_at) AS first_version,
    if(pow(1 - failed_calls / calls_with_it, before.3) > 0.05, '', before.2) AS last_clean_version,
    sum(n) AS failed_calls,
    max(last_at) AS last_seen,
    argMin(first_id, first_at) AS first_exchange_id,
    arraySort(arrayMap(v -> toString(v), versions_with_it)) AS versions
FROM with_all_versions
WHERE cause != ''
    AND ({cause:String} = '' OR cause = {cause:String})
GROUP BY service, stage, cause, root_cause
HAVING countIf({filter exchanges ONLY version}) > 0`},
	{regexp.MustCompile(`\{measures\}`), `countIf({counted}) AS calls,
    countIf(failed AND {counted}) AS failed_calls,
    {percent failed_calls of calls} AS failed_percent,
    topKIf(1)({reason}, failed AND {counted})[1] AS main_reason,
    uniqExactIf(conversation_id, conversation_id != '') AS conversations,
    sum(input) AS input_tokens,
    sum(cached) AS cached_tokens,
    sum(output) AS output_tokens,
    sum(c.tool_calls) AS tool_calls,
    round(sumIf({model dollars}, NOT no_price), 6) AS cost,
    countIf({counted} AND no_price) AS unpriced,
    {latency 0.5} AS p50,
    {latency 0.95} AS p95,
    round(quantileOrNullIf(0.95)(first_byte, NOT failed AND stream AND first_byte > 0 AND {counted}), 3) AS first_token,
    round(nullIf(sum(duration), 0), 3) AS seconds`},
	{regexp.MustCompile(`\{chosen calls OF GROUPS\}`), `(
    SELECT
        *,
        {tokens}
    FROM exchanges FINAL
    WHERE {filter calls}
        AND if({by:String} IN ('conversation', 'run'), (toStartOfHour(started_at), service, exchange_id) IN
        (
            SELECT toStartOfHour(started_at), service, exchange_id
            FROM exchanges
            WHERE {filter exchanges ONLY time}
                AND if({by:String} = 'run', run_id, conversation_id) IN (SELECT arrayJoin(groups))
        ), true)
) AS c`},
	{regexp.MustCompile(`\{chosen calls\}`), `(
    SELECT
        *,
        {tokens}
    FROM exchanges FINAL
    WHERE {filter calls}
) AS c`},
	{regexp.MustCompile(`\{step\}`), `dateDiff('second', {since:DateTime64(9, 'UTC')}, least({until:DateTime64(9, 'UTC')}, now64(9, 'UTC'))) AS span,
    arrayFirst(s -> s * 30 >= span, [60, 300, 900, 3600, 10800, 21600, 43200, 86400, 604800, 31536000]) AS auto_step,
    greatest(1, if({step:String} = 'auto', auto_step, toUInt32(parseTimeDelta(replaceOne({step:String}, 'auto', '1s'))))) AS step_seconds`},
	{regexp.MustCompile(`\{latency ([\d.]+)\}`), "round(quantileOrNullIf($1)(duration, NOT failed AND duration > 0 AND {counted}), 3)"},
	{regexp.MustCompile(`\{first_byte ([\d.]+)\}`), "round(quantileOrNullIf($1)(first_byte, NOT failed AND first_byte > 0 AND {counted}), 3)"},
	{regexp.MustCompile(`\{tokens_per_call\}`), "round(avgOrNullIf(coalesce(input_tokens, 0) + coalesce(output_tokens, 0), input_tokens IS NOT NULL))"},
	{regexp.MustCompile(`\{percent ([^{}]+) of ([^{}]+)\}`), "if(10 * ($1) < ($2), round(100 * ($1) / nullIf($2, 0), 1), round(100 * ($1) / nullIf($2, 0)))"},
	{regexp.MustCompile(`\{counted\}`), "(retry = 0 AND error_type != 'cancelled')"},
	{regexp.MustCompile(`\{said cause ?(\w*\.?)\}`), "concat(if(${1}cause_known = 'guessed', 'probably ', ''), toString(${1}cause))"},
	{regexp.MustCompile(`\{reason\}`), "if(root_cause IN ('', 'unknown_no_history'), concat(if(cause_known = 'guessed', 'probably cause ', 'cause '), toString(cause)), concat('root cause ', toString(root_cause)))"},
	{regexp.MustCompile(`\{hit\}`), `{measure:String} != '' AND {measured}
        OR {measure:String} = '' AND {rules:String} = '' AND failed AND {why:String} IN ('', cause, root_cause)
        OR cache_break != '' AND has(splitByChar(',', {rules:String}), toString(cache_break))
        OR exchange_id IN
        (
            SELECT exchange_id
            FROM findings FINAL
            WHERE {rules:String} != ''
                AND {filter findings ONLY time, service, stage}
                AND hasAny(splitByChar(',', {rules:String}), [toString(rule_id), toString(root_cause)])
        ) AS hit`},
	{regexp.MustCompile(`\{measured\}`), `(NOT failed AND multiIf(
            {measure:String} = 'duration', duration > {above:Float64},
            {measure:String} = 'first_token', stream AND first_byte > {above:Float64},
            {measure:String} = 'input_tokens', ifNull(input_tokens, 0) > {above:Float64},
            {measure:String} = 'output_tokens', ifNull(output_tokens, 0) > {above:Float64},
            {measure:String} = 'history', messages > {above:Float64},
            {measure:String} = 'answer_limit', finish_reason IN (` + AtTokenLimit + `),
            {measure:String} = 'answer_filtered', finish_reason IN (` + Filtered + `),
            startsWith({measure:String}, 'answer_'), concat('answer_', ended) = {measure:String},
            false))`},
	{regexp.MustCompile(`\{cache_element\}`), `if(cache_break = 'tools_reordered', 'tools', replaceRegexpOne(cache_element, '^messages\\[[0-9]+\\]', 'messages'))`},
	{regexp.MustCompile(`\{cache_detail\}`), `if(cache_break = 'tools_reordered', '', cache_detail)`},
	{regexp.MustCompile(`\{model prices\}`), `(
        SELECT groupArray((concat(provider, '\n', model), known, price.3, price.4, price.5, price.6, price.7))
        FROM
        (
            WITH {price}
            SELECT provider, model, known, price
            FROM
            (
                SELECT toString(arrayJoin(providers)) AS provider, toString(model) AS model
                FROM
                (
                    SELECT model, groupUniqArray(provider) AS providers FROM exchanges WHERE {filter exchanges ONLY time} GROUP BY model
                )
            )
        )
    ) AS models,
    transform(concat(c.provider, '\n', c.model), models.1, models.2, 0) AS known`},
	{regexp.MustCompile(`\{model dollars\}`), `((input - cached - written) * {per token 3} + cached * {per token 4} + (written - hour) * {per token 6} + hour * {per token 7}
        + output * {per token 5}) / 1e6`},
	{regexp.MustCompile(`\{per token (\d)\}`), `transform(concat(c.provider, '\n', c.model), models.1, models.$1, 0.)`},
	{regexp.MustCompile(`\{tokens\}`), `ifNull(input_tokens, 0) AS input,
        ifNull(output_tokens, 0) AS output,
        ifNull(cached_tokens, 0) AS cached,
        ifNull(cache_written_tokens, 0) AS written,
        ifNull(cache_hour_tokens, 0) AS hour`},
	{regexp.MustCompile(`\{later (\w+), (\w+)\}`), `if({after:String} = '', true, ($1, $2) < (toInt64OrZero(splitByChar(' ', {after:String}, 2)[1]), splitByChar(' ', {after:String}, 2)[2]))`},
	{regexp.MustCompile(`\{next (\w+), (\w+)\}`), `concat(toString($1), ' ', $2)`},
	{regexp.MustCompile(`\{price(?: (\w+\.))?\}`), `{prices},
    arrayFirstIndex(p -> (p.1 = '' OR p.1 = ${1}provider) AND ${1}model LIKE p.2, prices) AS known,
    arrayMap(p -> (0, 0, p.3, p.4, p.5, p.6, p.7), prices)[known] AS price`},
	{regexp.MustCompile(`\{prices\}`), `JSONExtract({prices:String}, 'Array(Tuple(String, String, Float64, Float64, Float64, Float64, Float64))') AS prices`},
	{regexp.MustCompile(`\{dollars(?: (\w+\.))?\}`), `((${1}input - ${1}cached - ${1}written) * price.3 + ${1}cached * price.4 + (${1}written - ${1}hour) * price.6 + ${1}hour * price.7
        + ${1}output * price.5) / 1e6`},
	{regexp.MustCompile(`\{cache tokens\}`), `coalesce(sum(cached_tokens), 0) AS cached,
        coalesce(sum(cache_written_tokens), 0) AS written,
        coalesce(sum(cache_hour_tokens), 0) AS hour`},
	{regexp.MustCompile(`\{accepted\}`), `accepted AS
    (
        SELECT provider, model, sum(input_tokens) / sum(request_bytes) AS tokens_per_byte
        FROM exchanges FINAL
        WHERE NOT failed
            AND input_tokens > 0
            AND request_bytes > 0
            AND {filter exchanges ONLY time}
        GROUP BY provider, model
    )`},
}

// The finish reasons of an answer that was cut off, and of one that was withheld, as in package wire.
const (
	AtTokenLimit = "'length', 'max_tokens', 'MAX_TOKENS', 'max_output_tokens', 'model_length', 'model_context_window_exceeded', 'ERROR_LIMIT', 'error_limit'"
	Filtered     = "'content_filter', 'content_filtered', 'guardrail_intervened', 'sensitive', 'ERROR_TOXIC', " +
		"'SAFETY', 'RECITATION', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII', 'IMAGE_SAFETY', 'IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION'"
)

// Expand replaces the fragments in a statement.
func Expand(sql string) string {
	for _, f := range fragments {
		sql = f.pattern.ReplaceAllString(sql, f.text)
	}
	return sql
}
