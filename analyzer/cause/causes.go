package cause

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/rules"
)

// An entry describes a cause.
type entry struct {
	class        string
	also         []string // rules of other causes that providers report with the same wording
	partly       bool     // its rules find only some of its faults, so its texts name no rule unless their row does
	meaning, fix string
	fixes        []specialFix
}

// A specialFix is how a cause is mended if the text contains phrases of the normal form in this order.
type specialFix struct {
	phrases [][]byte
	fix     string
}

// registry contains all causes.
var registry = mustParse("causes", parseCauses)

// parseCauses reads causes: an id, then a line for each field.
func parseCauses(s string) (map[string]entry, error) {
	causes, id := map[string]entry{}, ""
	err := eachLine(s, func(line string, indented bool) error {
		if !indented {
			if id = line; causes[id].class != "" {
				return fmt.Errorf("%s is there twice", id)
			}
			return nil
		}
		e := causes[id]
		switch key, value, _ := strings.Cut(line, ": "); key {
		case "class":
			e.class = value
		case "also":
			e.also = strings.Fields(value)
		case "partly":
			e.partly = true
		case "meaning":
			e.meaning = value
		case "fix":
			e.fix = value
		default:
			words, special := strings.CutPrefix(key, "fix if ")
			if !special {
				return fmt.Errorf("unknown field %q", line)
			}
			e.fixes = append(e.fixes, specialFix{phrasesOf(words), value})
		}
		causes[id] = e
		return nil
	})
	return causes, err
}

// rulesOf maps a cause to the rules whose violation implies it, in evaluation order.
var rulesOf = func() map[string][]string {
	m := make(map[string][]string)
	for _, r := range rules.InOrder {
		m[r.Cause] = append(m[r.Cause], r.ID)
	}
	return m
}()

// IDs returns the ids of all causes, sorted.
func IDs() []string {
	return slices.Sorted(maps.Keys(registry))
}

// Class returns the class of a cause, "" for an unknown id.
func Class(id string) string { return registry[id].class }

// OfRule returns the cause implied by a violation of a rule, "" for an unknown rule.
func OfRule(rule string) string {
	if r := rules.ByID(rule); r != nil {
		return r.Cause
	}
	return ""
}

// Fix returns a sentence on how to mend the cause id of a failure with this error text; "" for an unknown id.
func Fix(id string, text []byte) string {
	e := registry[id]
	if len(e.fixes) == 0 {
		return e.fix
	}
	var buf [maxText + maxEdges]byte
	return e.fixFor(normalise(nil, statements(buf[:0], text)))
}

// fixFor returns how to mend e if text is the normal form of the error text.
func (e *entry) fixFor(text []byte) string {
	for i := range e.fixes {
		if contains(text, e.fixes[i].phrases) {
			return e.fixes[i].fix
		}
	}
	return e.fix
}

// Meaning returns a sentence on the meaning of a cause and a sentence on its fix; both are "" for an unknown id.
func Meaning(id string) (sentence, fix string) {
	e := registry[id]
	return e.meaning, e.fix
}
