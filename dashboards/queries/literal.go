package queries

import (
	"regexp"
	"strings"
)

// boundPattern matches a bound parameter, {name:Type}.
var boundPattern = regexp.MustCompile(`\{(\w+):(\w+(?:\([^()]*\))?)\}`)

var digits = regexp.MustCompile(`^\d+$`)

// Literal returns sql with the values of its bound parameters in place, for a person to copy. llmtap itself never runs it.
func Literal(sql string, params map[string]string) string {
	return boundPattern.ReplaceAllStringFunc(sql, func(text string) string {
		m := boundPattern.FindStringSubmatch(text)
		value, ok := params[m[1]]
		switch {
		case !ok:
			return text
		case m[2] == "String":
			return quoted(value)
		case strings.HasPrefix(m[2], "UInt") && digits.MatchString(value):
			return value
		case strings.HasPrefix(m[2], "DateTime64(9"):
			return "toDateTime64(" + quoted(value) + ", 9, 'UTC')"
		}
		return "CAST(" + quoted(value) + " AS " + m[2] + ")"
	})
}

// quoted returns a string literal of ClickHouse.
func quoted(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
