package analyzer

import (
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// Severity says what a target does with a defect.
type Severity string

// The severities. Unknown behaviour counts as Lenient, never as Reject.
const (
	Reject  Severity = "reject"  // this target answers 400
	Lenient Severity = "lenient" // accepted here, rejected elsewhere
	Style   Severity = "style"   // accepted everywhere, still wrong
)

// A Rule is one check of one message history. Run is pure and keeps no state.
type Rule struct {
	ID       string // snake_case name of the defect; also the file and testdata name
	Doc      string // first line: title; then why providers reject it and how to fix the caller
	Fix      string // one sentence: what to change in the agent
	Severity func(facts.Target) Severity
	Run      func(*Pass)
}

// Title is the first line of the rule's Doc.
func (r *Rule) Title() string {
	t, _, _ := strings.Cut(r.Doc, "\n")
	return t
}

// A Pass is one run of the rules over one request. Rules read Request and Groups and call Report.
type Pass struct {
	Request *facts.Request
	Target  facts.Target
	// Before is what is known of what came before the request; nil when nothing is.
	Before *Before
	// Groups pairs the calls and replies of Request; it is computed once per request for all pairing rules.
	Groups *Pairing

	set        *Set
	rule       *Rule
	reported   int // by rule
	violations []Violation
}

// Before is what is known of the answers that a request builds on.
type Before struct {
	Chain *Chain // of the answer that previous_response_id names; nil when it was not seen
	// Signed are the signatures of the answer before the request, and Copy is the message that repeats this answer; -1
	// when there is none.
	Signed []facts.Signed
	Copy   int
}

// A Chain is what is known of the answer that previous_response_id names.
type Chain struct {
	Calls []facts.ResponseCall // that it left to the agent
}

// A Violation is a defect found in one request, before it has an identity in a conversation.
type Violation struct {
	Rule       *Rule
	Predicted  Severity
	Message    int    // 0-based index in messages as sent
	ToolCallID string // "" when no call is concerned
	ToolName   string
	Detail     string // closed set per rule, e.g. after_plain_assistant
	Summary    string // one line for humans; quotes no content but ids, names and roles
}

// maxPerRule bounds what one rule reports of one request, so that a hostile body cannot fill memory with findings.
const maxPerRule = 1000

// Report records a defect of message i. Only the first 1,000 of a rule are kept.
func (p *Pass) Report(i int, callID []byte, toolName []byte, detail, format string, args ...any) {
	p.ReportAs(p.rule.Severity(p.Target), i, callID, toolName, detail, format, args...)
}

// ReportAs is Report of a defect that the target takes otherwise than most of the rule's: OpenAI rejects sound in a
// tool message, but images no longer.
func (p *Pass) ReportAs(s Severity, i int, callID []byte, toolName []byte, detail, format string, args ...any) {
	if p.reported++; p.reported > maxPerRule {
		return
	}
	p.violations = append(p.violations, Violation{
		Rule: p.rule, Predicted: s, Message: i, ToolCallID: string(callID), ToolName: string(toolName),
		Detail: detail, Summary: fmt.Sprintf(format, args...),
	})
}

// Check runs rules over r for target t and returns what they found, in rule order. The result and everything in it
// is the caller's to keep. A Checker is not safe for concurrent use; it reuses its memory between requests.
func (c *Checker) Check(r *facts.Request, t facts.Target) []Violation { return c.CheckAfter(r, t, nil) }

// CheckAfter is Check of a request of which more is known than it says itself; before may be nil.
func (c *Checker) CheckAfter(r *facts.Request, t facts.Target, before *Before) []Violation {
	var chain *Chain
	if before != nil {
		chain = before.Chain
	}
	c.pairing.reset(r, t, chain)
	c.pass = Pass{Request: r, Target: t, Before: before, Groups: &c.pairing, set: &c.set, violations: c.pass.violations[:0]}
	for _, rule := range c.rules {
		c.pass.rule, c.pass.reported = rule, 0
		rule.Run(&c.pass)
	}
	if len(c.pass.violations) == 0 {
		return nil
	}
	return append([]Violation(nil), c.pass.violations...)
}

// A Checker runs a set of rules over requests.
type Checker struct {
	rules   []*Rule
	pairing Pairing
	set     Set
	pass    Pass
}

// NewChecker returns a Checker that runs rules in their order.
func NewChecker(rules []*Rule) *Checker {
	return &Checker{rules: rules, pairing: Pairing{seed: maphash.MakeSeed()}, set: Set{seed: maphash.MakeSeed()}}
}
