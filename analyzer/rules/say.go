package rules

import (
	"strconv"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// maxName bounds what a summary quotes of an id or a name.
const maxName = 80

// name makes an id or a function name safe to print: quoted where it is not plain, cut where it is long.
func name(b []byte) string {
	cut := ""
	if len(b) > maxName {
		b, cut = b[:maxName], "…"
	}
	for _, c := range b {
		if c <= ' ' || c > '~' || c == '"' {
			return strconv.Quote(string(b)) + cut
		}
	}
	if len(b) == 0 {
		return "(no id)"
	}
	return string(b) + cut
}

// function is "read_file", or "a function without a name".
func function(c *facts.Call) string {
	if len(c.Name) == 0 {
		return "a function without a name"
	}
	return name(c.Name)
}

// role is the word for the author of message i.
func role(p *analyzer.Pass, i int) string {
	switch p.Request.Messages[i].Role {
	case facts.RoleSystem:
		return "system"
	case facts.RoleDeveloper:
		return "developer"
	case facts.RoleUser:
		return "user"
	case facts.RoleAssistant:
		return "assistant"
	case facts.RoleTool:
		return "tool"
	case facts.RoleFunction:
		return "function"
	case facts.RoleOther:
		return "unknown role"
	default:
		return "no role"
	}
}

// kind is a JSON type with its article.
func kind(k facts.Kind) string {
	switch k {
	case facts.Absent:
		return "absent"
	case facts.Null:
		return "null"
	case facts.Bool:
		return "a boolean"
	case facts.Number:
		return "a number"
	case facts.String:
		return "a string"
	case facts.Array:
		return "an array"
	case facts.Object:
		return "an object"
	default:
		return "no JSON"
	}
}

// toolName is the name of the function that call c of the pairing calls; nil when c is -1.
func toolName(p *analyzer.Pass, c int) []byte {
	if c < 0 {
		return nil
	}
	return p.Groups.Calls[c].Name
}
