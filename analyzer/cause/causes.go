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
			return fmt.Errorf("unknown field %q", line)
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

// Meaning returns a sentence on the meaning of a cause and a sentence on its fix; both are "" for an unknown id.
func Meaning(id string) (sentence, fix string) {
	e := registry[id]
	return e.meaning, e.fix
}
