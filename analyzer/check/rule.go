package check

import (
	"strings"

	"github.com/llmtap/llmtap/ingest/wire"
)

// Severity is how a target reacts to a defect.
type Severity string

// The severities. Unknown behavior counts as Lenient, never as Reject.
const (
	Reject  Severity = "reject"  // this target answers 400
	Lenient Severity = "lenient" // accepted here, rejected elsewhere
	Style   Severity = "style"   // accepted everywhere, still wrong
	Signal  Severity = "signal"  // a finding of no rule, so no target judges it
)

// Severities lists the severities of rules, the weakest first.
var Severities = []Severity{Style, Lenient, Reject}

// Rank orders severities by strength: 1 for Severities[0] and so on, 0 for a signal.
func (s Severity) Rank() int {
	switch s {
	case Reject:
		return 3
	case Lenient:
		return 2
	case Style:
		return 1
	default:
		return 0
	}
}

// A Rule is one check of one message history. Run is pure and keeps no state.
type Rule struct {
	ID       string // snake_case name of the defect; also the file and testdata name
	Order    int    // evaluation order; unique, in steps of 10
	Cause    string // of spec/causes.json: the cause of a failure that the violation explains
	Doc      string // first line: title; then why providers reject it and how to fix the caller
	Fix      string // one sentence: what to change in the agent
	Severity func(wire.Target) Severity
	Run      func(*Pass)
}

// Title returns the first line of the rule's Doc.
func (r *Rule) Title() string {
	t, _, _ := strings.Cut(r.Doc, "\n")
	return t
}

// A Violation is a defect found in one request, before it has an identity in a conversation.
type Violation struct {
	Rule       *Rule
	Predicted  Severity
	Message    int    // 0-based index in messages as sent
	ToolCallID string // "" when the defect concerns no call
	ToolName   string
	Detail     string // closed set per rule, e.g. after_plain_assistant
	Summary    string // one line for humans; quotes only ids, names and roles
}
