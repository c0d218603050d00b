package check

import (
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Severity is how a target reacts to a defect.
type Severity string

// Severities of a defect. Unknown behavior counts as Lenient, never as Reject.
const (
	Reject  Severity = "reject"  // the target answers 400
	Lenient Severity = "lenient" // accepted by the target, rejected by others
	Style   Severity = "style"   // accepted by all targets, but still wrong
	Signal  Severity = "signal"  // a signal: not a violation of a rule, so it has no severity for a target
)

// Severities lists the severities of rules in increasing order.
var Severities = []Severity{Style, Lenient, Reject}

// Rank returns the strength of s: 1 for Severities[0] and so on, 0 for a signal.
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

// A Rule is one check of a message history. Run is pure and retains no state.
type Rule struct {
	ID       string // snake_case name of the defect; also the name of the file and of its testdata
	Order    int    // evaluation order: unique, in steps of 10
	Cause    string // id in spec/causes.json of the failures that the violation explains
	Doc      string // title line, then why providers reject the defect and how to fix the caller
	Fix      string // what to change in the agent, in one sentence
	Severity func(wire.Target) Severity
	Run      func(*Pass)
}

// Title returns the first line of the rule's Doc.
func (r *Rule) Title() string {
	t, _, _ := strings.Cut(r.Doc, "\n")
	return t
}

// A Violation is a defect in one request, without an identity in a conversation.
type Violation struct {
	Rule       *Rule
	Predicted  Severity
	Message    int    // 0-based index in messages as sent
	Part       int    // index of the call or reply in its message, for rules about calls and replies
	ToolCallID string // "" if the defect is not about a call; in Gemini, the function's name if the call has no id
	ToolName   string
	Detail     string // one of a closed set per rule, e.g. after_plain_assistant
	Summary    string // one line for humans; quotes only ids, names and roles
}
