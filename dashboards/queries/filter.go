package queries

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A filter is a common parameter of queries. Several values are alternatives, except those of attr, which must all match.
type filter struct {
	name, doc string
	condition func(column, value string, bind func(value string) string) (string, error)
}

var filters = []filter{
	{"service", "only this service", equals},
	{"stage", "only this stage", equals},
	{"environment", "only this environment", equals},
	{"version", "only this version of the service", equals},
	{"provider", "only this provider", equals},
	{"model", "only this model", equals},
	{"status", "only this HTTP status, such as 400 or 4xx; 0 means no response", hasStatus},
	{"user", "only this user: the hash that the hooks publish", equals},
	{"attr", "only calls with this attribute: key=value, or key for any value; repeatable", hasAttribute},
	{"failed", "yes: only failed calls; no: only the others", isFailed},
	{"cause", "only calls that failed with this cause or root cause", hasCause},
	{"tool", "only calls that declare this tool", hasElement},
	{"seconds", "only calls that took this long or longer, such as 10; <10: that were faster", inRange},
	{"tokens", "only calls with this many tokens in and out or more, such as 10000; <10000: with fewer", inRange},
	{"conversation", "only this conversation", equals},
	{"run", "only this run", equals},
	{"text", "only calls that are the first to send a message with these whole words, or whose answer has them, in any case, as written in the JSON", hasText},
}

// tables lists the column of each filter, and the time column, of the tables that {filter TABLE} knows.
var tables = map[string]map[string]string{
	"exchanges": {
		"time": "started_at", "service": "service", "stage": "stage", "environment": "environment", "version": "service_version",
		"provider": "provider", "model": "model", "status": "status", "user": "user", "attr": "attributes",
	},
	// Exchanges with the filters of lists of calls, too. Queries about causes have parameters of these names, with a meaning of their
	// own, so that these are not filters of exchanges. The others are added below.
	"calls": {
		"failed": "failed", "cause": "cause", "tool": "tools", "seconds": "nullIf(duration, 0)", "tokens": "coalesce(input_tokens + output_tokens, input_tokens, output_tokens)",
		"conversation": "conversation_id", "run": "run_id", "text": "answer",
	},
	// The version of a finding is that of the exchange that showed it first; a later version may have sent it again.
	"findings": {
		"time": "first_seen", "service": "service", "stage": "stage", "environment": "environment", "version": "exchange_version",
		"provider": "provider", "model": "model", "status": "status", "user": "user", "attr": "attributes",
	},
	"tool_calls": {
		"time": "asked_at", "service": "service", "stage": "stage", "environment": "environment", "version": "service_version",
		"user": "user", "attr": "attributes",
	},
	"alerts": {
		"time": "started_at", "service": "labels['service']", "stage": "labels['stage']", "environment": "labels['environment']",
		"provider": "labels['provider']", "model": "labels['model']",
	},
	"alert_actions": {"time": "at", "service": "service"},
	"history":       {"time": "seen_at", "service": "service"},
}

func init() { maps.Copy(tables["calls"], tables["exchanges"]) }

// A use is one {filter TABLE [AS alias] [EXCEPT|ONLY names]} in a statement. The time range is the filter time. EXCEPT omits
// filters, and ONLY omits all others: a failure rate requires all calls, so status restricts only the failures that it counts.
type use struct {
	table   string
	columns map[string]string // column by filter
	alias   string
}

// byKey makes a statement read the findings of a short time range by key, because their table is not in order of time. Findings of
// a longer range are in most granules, and looking up their keys would only cost more.
const byKey = `({since:DateTime64(9, 'UTC')} < least({until:DateTime64(9, 'UTC')}, now64(9, 'UTC')) - INTERVAL 6 HOUR OR ({conversation_id}, {finding_id}) IN
	(SELECT conversation_id, finding_id FROM findings WHERE first_seen >= {since:DateTime64(9, 'UTC')} AND first_seen < {until:DateTime64(9, 'UTC')}))`

var usePattern = regexp.MustCompile(`\{filter (\w+)(?: AS (\w+))?(?: (EXCEPT|ONLY) (\w+(?:, \w+)*))?\}`)

func parseUse(match []string) (use, error) {
	all, ok := tables[match[1]]
	if !ok {
		return use{}, fmt.Errorf("%s: unknown table", match[0])
	}
	names := strings.Split(match[4], ", ")
	for _, n := range names {
		if _, ok := all[n]; n != "" && !ok {
			return use{}, fmt.Errorf("%s: %s has no filter %q", match[0], match[1], n)
		}
	}
	u := use{table: match[1], columns: map[string]string{}, alias: match[2]}
	for name, column := range all {
		if match[3] == "" || slices.Contains(names, name) == (match[3] == "ONLY") {
			u.columns[name] = column
		}
	}
	return u, nil
}

// filtersIn returns the parameters of the filters that a statement uses.
func filtersIn(sql string) ([]Parameter, error) {
	used := map[string]bool{}
	for _, m := range usePattern.FindAllStringSubmatch(sql, -1) {
		u, err := parseUse(m)
		if err != nil {
			return nil, err
		}
		for name := range u.columns {
			used[name] = true
		}
	}
	if rest := usePattern.ReplaceAllString(sql, ""); strings.Contains(rest, "{filter ") {
		return nil, fmt.Errorf("invalid {filter …}: the format is {filter TABLE AS alias EXCEPT names}")
	}
	var params []Parameter
	for _, f := range filters {
		if used[f.name] {
			params = append(params, Parameter{Name: f.name, Doc: f.doc, Filter: true})
		}
	}
	return params, nil
}

// Filters returns the common filters of a table.
func Filters(table string) []Parameter {
	params, _ := filtersIn("{filter " + table + "}") // a test calls it for the tables in use
	return params
}

// Filter replaces each {filter …} in sql by its conditions and adds the values to params.
func Filter(sql string, given Values, params map[string]string) (string, error) {
	bound := map[string]map[string]string{} // placeholder by filter and value
	var firstErr error
	text := usePattern.ReplaceAllStringFunc(sql, func(text string) string {
		u, err := parseUse(usePattern.FindStringSubmatch(text))
		if err != nil {
			firstErr = err
			return text
		}
		var all []string
		if column, ok := u.columns["time"]; ok {
			column = u.column(column)
			all = append(all, column+" >= {since:DateTime64(9, 'UTC')}", column+" < {until:DateTime64(9, 'UTC')}")
			if u.table == "findings" {
				all = append(all, strings.NewReplacer("{conversation_id}", u.column("conversation_id"), "{finding_id}", u.column("finding_id")).Replace(byKey))
			}
		}
		for _, f := range filters {
			column, ok := u.columns[f.name]
			if !ok || len(given[f.name]) == 0 {
				continue
			}
			if bound[f.name] == nil {
				bound[f.name] = map[string]string{}
			}
			bind := func(value string) string {
				name, ok := bound[f.name][value]
				if !ok {
					name = f.name + "_" + strconv.Itoa(len(bound[f.name]))
					bound[f.name][value] = name
				}
				params[name] = value
				return "{" + name + ":String}"
			}
			var conditions []string
			for _, value := range given[f.name] {
				c, err := f.condition(u.column(column), value, bind)
				if err != nil && firstErr == nil {
					firstErr = fmt.Errorf("%s: %w", f.name, err)
				}
				conditions = append(conditions, c)
			}
			if f.name == "attr" {
				all = append(all, conditions...)
			} else {
				all = append(all, "("+strings.Join(conditions, " OR ")+")")
			}
		}
		if len(all) == 0 {
			return "true"
		}
		return strings.Join(all, " AND ")
	})
	if firstErr != nil {
		return text, firstErr
	}
	return chosen(text, given["hits"], params)
}

// chosen replaces {chosen exchanges} in sql by the conditions of the parameter hits: name=value, separated by commas, where a name is
// that of a filter or of an attribute.
func chosen(sql string, hits []string, params map[string]string) (string, error) {
	const placeholder = "{chosen exchanges}"
	if !strings.Contains(sql, placeholder) {
		return sql, nil
	}
	all := []string{"true"}
	for text := range strings.SplitSeq(strings.Join(hits, ","), ",") {
		if text == "" {
			continue
		}
		bind := func(value string) string {
			name := "hits_" + strconv.Itoa(len(params))
			params[name] = value
			return "{" + name + ":String}"
		}
		name, value, found := strings.Cut(text, "=")
		f, column := filter{condition: hasAttribute}, "attributes"
		if i := slices.IndexFunc(filters, func(f filter) bool { return f.name == name && name != "attr" }); i >= 0 && found {
			f, column, text = filters[i], tables["exchanges"][name], value
		}
		condition, err := f.condition(column, text, bind)
		if err != nil {
			return sql, fmt.Errorf("hits: %w", err)
		}
		all = append(all, condition)
	}
	return strings.ReplaceAll(sql, placeholder, strings.Join(all, " AND ")), nil
}

func (u use) column(name string) string {
	if u.alias == "" {
		return name
	}
	return u.alias + "." + name
}

func equals(column, value string, bind func(string) string) (string, error) {
	return column + " = " + bind(value), nil
}

func hasElement(column, value string, bind func(string) string) (string, error) {
	return "has(" + column + ", " + bind(value) + ")", nil
}

func hasCause(column, value string, bind func(string) string) (string, error) {
	return bind(value) + " IN (" + column + ", " + strings.TrimSuffix(column, "cause") + "root_cause)", nil
}

func isFailed(column, value string, _ func(string) string) (string, error) {
	switch value {
	case "yes":
		return column, nil
	case "no":
		return "NOT " + column, nil
	}
	return "", fmt.Errorf("%q is neither yes nor no", value)
}

// inRange does not match a call whose value is unknown: its column is NULL.
func inRange(column, value string, _ func(string) string) (string, error) {
	text, below := strings.CutPrefix(value, "<")
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
		return "", fmt.Errorf("%q is not a number; examples are 10 and <10", value)
	case below:
		return column + " < " + strconv.FormatFloat(n, 'f', -1, 64), nil
	}
	return column + " >= " + strconv.FormatFloat(n, 'f', -1, 64), nil
}

// asciiWord matches what the index of messages takes for a word.
var asciiWord = regexp.MustCompile(`[0-9a-z]+`)

// hasText looks up the longest word in the index of messages, as the query messages_with does. A text that is not ASCII is searched in
// every message. Messages are stored with the time of the stream, and calls with that of the agent, whose clock may be fast: messages are read
// from when the first of the calls was sent by the stream's clock.
func hasText(column, value string, bind func(string) string) (string, error) {
	text := strings.ToLower(value)
	const stored = `seen_at >= (SELECT least({since:DateTime64(9, 'UTC')}, minOrNull(stored_at - toIntervalMillisecond(toInt64(1000 * duration)))) - INTERVAL 5 MINUTE
		FROM exchanges WHERE started_at >= {since:DateTime64(9, 'UTC')} AND started_at < {until:DateTime64(9, 'UTC')})`
	indexed := ""
	words := asciiWord.FindAllString(text, -1)
	if len(words) > 0 && strings.IndexFunc(text, func(r rune) bool { return r > '~' }) < 0 {
		longest := bind(slices.MaxFunc(words, func(a, b string) int { return len(a) - len(b) }))
		// The letter of an escape sequence \n or \t belongs to the word after it.
		indexed = " AND (hasToken(lower(body), " + longest + ") OR hasToken(lower(body), concat('n', " + longest + ")) OR hasToken(lower(body), concat('t', " + longest + ")))"
	}
	// A scalar is read once for a statement. Bodies with the text are found faster than their words, which the index requires.
	messages := "(SELECT arrayJoin((SELECT groupArray(id) FROM messages WHERE kind != 'parameters' AND " + stored + " AND positionCaseInsensitive(body, " + bind(text) + ") > 0" + indexed + ")))"
	sent := strings.Replace(column, "answer", "exchange_id", 1) +
		" IN (SELECT arrayJoin((SELECT groupUniqArray(exchange_id) FROM history WHERE " + stored + " AND message_id IN " + messages + ")))"
	return column + " IN " + messages + " OR " + sent, nil
}

func hasStatus(column, value string, _ func(string) string) (string, error) {
	if len(value) == 3 && value[0] >= '1' && value[0] <= '5' && strings.EqualFold(value[1:], "xx") {
		return "intDiv(" + column + ", 100) = " + value[:1], nil
	}
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return "", fmt.Errorf("%q is not an HTTP status; examples are 400 and 4xx", value)
	}
	return column + " = " + strconv.FormatUint(n, 10), nil
}

func hasAttribute(column, value string, bind func(string) string) (string, error) {
	key, v, found := strings.Cut(value, "=")
	switch {
	case key == "":
		return "", fmt.Errorf("%q has no key; an example is tenant=acme", value)
	case !found:
		return "mapContains(" + column + ", " + bind(key) + ")", nil
	}
	return column + "[" + bind(key) + "] = " + bind(v), nil
}
