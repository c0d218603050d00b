package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// maxFields bounds the fields of one side of a diff, because the diff takes the product of both sides.
const maxFields = 1000

// A field is a scalar of a message, or an empty object or list.
type field struct {
	path  string // such as tool_calls[0].function.name
	key   string // path without indexes
	value string // strings are in quotes
}

// A change is a field of both sides, of only the answer (-) or of only the request (+). If the value of a field changed, the
// removed and the added field follow each other, and both changes have both fields.
type change struct {
	mark       byte // ' ', '-', '+'
	said, sent *field
}

// memberOrder lists the members that come first. The others are in alphabetical order, so that the sender's order makes
// no difference.
var memberOrder = []string{"role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "toolUseId", "name", "reasoning_content", "reasoning", "content", "parts", "text"}

var index = regexp.MustCompile(`\[\d+\]`)

// fields returns the fields of messages in order. The paths of several messages begin with the index of the message.
func fields(places []Place) []field {
	var all []field
	for i := range places {
		var v any
		d := json.NewDecoder(bytes.NewReader(places[i].Body))
		d.UseNumber()
		if d.Decode(&v) != nil {
			v = string(places[i].Body)
		}
		prefix := ""
		if len(places) > 1 {
			prefix = fmt.Sprintf("[%d]", i)
			if places[i].Message >= 0 {
				prefix = fmt.Sprintf("[%d]", places[i].Message)
			}
		}
		all = flatten(all, prefix, v)
	}
	return all
}

func flatten(all []field, path string, v any) []field {
	if len(all) >= maxFields {
		return all
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			break
		}
		for _, key := range slices.SortedFunc(maps.Keys(v), compareMembers) {
			all = flatten(all, strings.TrimPrefix(path+"."+key, "."), v[key])
		}
		return all
	case []any:
		if len(v) == 0 {
			break
		}
		for i, e := range v {
			all = flatten(all, fmt.Sprintf("%s[%d]", path, i), e)
		}
		return all
	}
	return append(all, field{path: path, key: strings.TrimPrefix(index.ReplaceAllString(path, ""), "."), value: scalar(v)})
}

func compareMembers(a, b string) int {
	i, j := slices.Index(memberOrder, a), slices.Index(memberOrder, b)
	switch {
	case i >= 0 && j >= 0:
		return i - j
	case i >= 0:
		return -1
	case j >= 0:
		return 1
	}
	return strings.Compare(a, b)
}

// scalar returns v as JSON. A string that contains double quotes is in single quotes and not escaped, because most of these
// are arguments of calls.
func scalar(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // no error: v was decoded from JSON
	text := strings.TrimSpace(b.String())
	if s, ok := v.(string); ok && strings.Contains(s, `"`) && !strings.Contains(s, "'") {
		return "'" + strings.ReplaceAll(text[1:len(text)-1], `\"`, `"`) + "'"
	}
	return text
}

// blank reports whether a field has no value, like members that an SDK adds to every answer.
func (f *field) blank() bool { return f.value == "null" || f.value == "[]" }

// diff compares the fields of what the model said with those of what the request contains. Blank fields that only the answer
// has are omitted, and so are the fields that no history repeats.
func diff(said, sent []field) []change {
	said = slices.DeleteFunc(said, func(f field) bool {
		missing := !slices.ContainsFunc(sent, func(o field) bool { return o.key == f.key })
		return missing && (f.blank() || f.key == "status" || f.key == "refusal" || strings.HasSuffix(f.key, "tool_calls.index"))
	})
	// common[i][j] is the length of the longest common subsequence of said[i:] and sent[j:].
	common := make([][]int, len(said)+1)
	for i := range common {
		common[i] = make([]int, len(sent)+1)
	}
	equal := func(i, j int) bool { return said[i].key == sent[j].key && said[i].value == sent[j].value }
	for i := range slices.Backward(said) {
		for j := len(sent) - 1; j >= 0; j-- {
			if equal(i, j) {
				common[i][j] = 1 + common[i+1][j+1]
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var all []change
	for i, j := 0, 0; i < len(said) || j < len(sent); {
		switch {
		case i < len(said) && j < len(sent) && equal(i, j):
			all = append(all, change{' ', &said[i], &sent[j]})
			i, j = i+1, j+1
		case j == len(sent) || i < len(said) && common[i+1][j] >= common[i][j+1]:
			all = append(all, change{mark: '-', said: &said[i]})
			i++
		default:
			all = append(all, change{mark: '+', sent: &sent[j]})
			j++
		}
	}
	return pair(all)
}

// pair moves each added field behind the removed field with the same path, in each run of changes.
func pair(all []change) []change {
	out := make([]change, 0, len(all))
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(c change) bool { return c.mark == ' ' })
		if n < 0 {
			n = len(all)
		}
		run := all[:n]
		for i := range run {
			if run[i].mark != '-' {
				continue
			}
			j := slices.IndexFunc(run, func(c change) bool { return c.mark == '+' && c.sent.key == run[i].said.key })
			if j < 0 {
				out = append(out, run[i])
				continue
			}
			out = append(out, change{'-', run[i].said, run[j].sent}, change{'+', run[i].said, run[j].sent})
			run[j].mark = 0
		}
		for _, c := range run {
			if c.mark == '+' {
				out = append(out, c)
			}
		}
		if n < len(all) {
			out = append(out, all[n])
			n++
		}
		all = all[n:]
	}
	return out
}

// differs reports whether a diff has changes.
func differs(all []change) bool {
	return slices.ContainsFunc(all, func(c change) bool { return c.mark != ' ' })
}

// firstDifference returns the byte offset at which a and b begin to differ.
func firstDifference(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}
