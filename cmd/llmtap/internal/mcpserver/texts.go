package mcpserver

import (
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// withoutTexts returns an error unless a statement certainly does not read texts of messages. They are only in the table messages,
// which a name, an expression over names or another table can reach.
func withoutTexts(sql string) error {
	scanner := sqltext.Scanner{SQL: sql}
	for t, next := scanner.Next(), scanner.Next(); t.Kind != sqltext.End; t, next = next, scanner.Next() {
		name := strings.ToLower(t.Text)
		isName := t.Kind == sqltext.Word || t.Kind == sqltext.QuotedName
		switch {
		case isName && name == "identifier":
			return fmt.Errorf("parameters of the type Identifier are not allowed while texts are withheld: they can name any table")
		case isName && strings.Contains(name, "messages"):
			return fmt.Errorf("the statement contains the name %s, and the table messages has texts: %s. The number of messages of a request is in query conversation", line(t.Text, maxVersion), withheld)
		case t.Kind == sqltext.QuotedName && strings.Contains(name, `\`):
			return fmt.Errorf("the name %s contains an escape sequence, which is not allowed while texts are withheld", line(t.Text, maxVersion))
		case isName && next.Is("(") && indirect(strings.Trim(name, "`\"“”")):
			return fmt.Errorf("the function %s is not allowed while texts are withheld: it can read any table", line(t.Text, maxVersion))
		case t.Kind == sqltext.Word && name == "system" && next.Is("."), t.Kind == sqltext.QuotedName && strings.Trim(name, "`\"“”") == "system":
			return fmt.Errorf("the database system is not allowed while texts are withheld: it has logs of statements")
		}
	}
	return nil
}

// indirect reports whether a function reads a table whose name is an expression.
func indirect(function string) bool {
	for _, prefix := range []string{"merge", "cluster", "loop", "remote", "dictget", "dicthas", "joinget", "timeseries", "prometheus", "fuzz", "view"} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}
