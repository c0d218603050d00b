package queries

import (
	"regexp"
	"strconv"
	"strings"
)

// known matches the start of an if whose condition depends on a parameter alone.
var known = regexp.MustCompile(`\bif\((?:\{(\w+):String\} (?:=|IN) (\('[^()]*'\)|'[^']*')|startsWith\(\{(\w+):String\}, '([^']*)'\)|\{(\w+):Float64\} <= 0), `)

// fold replaces each if whose condition depends on a parameter alone by the branch that params choose. ClickHouse would plan all
// branches, which took longer than to read the calls of a day. So a branch may also be what is no expression, such as a join.
func fold(sql string, params map[string]string) string {
	for {
		m := known.FindStringSubmatchIndex(sql)
		if m == nil {
			return sql
		}
		group := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return sql[m[2*i]:m[2*i+1]]
		}
		holds := false
		switch {
		case m[2] >= 0:
			holds = strings.Contains(", "+strings.Trim(group(2), "()")+",", ", '"+params[group(1)]+"',")
		case m[6] >= 0:
			holds = strings.HasPrefix(params[group(3)], group(4))
		default:
			n, _ := strconv.ParseFloat(params[group(5)], 64) // Bind has checked it
			holds = n <= 0
		}
		comma, end := arguments(sql, m[1])
		branch := sql[m[1]:comma]
		if !holds {
			branch = sql[comma+1 : end]
		}
		sql = sql[:m[0]] + strings.TrimSpace(branch) + sql[end+1:]
	}
}

// arguments returns where the comma after the argument that starts at i is, and the parenthesis that ends the last one.
func arguments(sql string, i int) (comma, end int) {
	depth, quoted := 0, false
	for ; i < len(sql); i++ {
		switch c := sql[i]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(' || c == '[':
			depth++
		case c == ',' && depth == 0 && comma == 0:
			comma = i
		case c == ')' && depth == 0:
			return comma, i
		case c == ')' || c == ']':
			depth--
		}
	}
	panic("BUG: an if in a stored query does not end: " + sql)
}
