package check

import (
	"fmt"
	"hash/maphash"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A Checker applies a set of rules to requests. It reuses its memory between requests and is not safe for concurrent
// use.
type Checker struct {
	rules   []*Rule
	pairing Pairing
	set     Set
	pass    Pass
}

// NewChecker returns a Checker that applies rules in the given order.
func NewChecker(rules []*Rule) *Checker {
	return &Checker{rules: rules, pairing: Pairing{seed: maphash.MakeSeed()}, set: Set{seed: maphash.MakeSeed()}}
}

// Check applies the rules to r for target t and returns the violations in rule order. The caller owns the result.
// before is nil if nothing is known about the conversation before r.
func (c *Checker) Check(r *facts.Request, t wire.Target, before *Before) []Violation {
	c.pair(r, t, before)
	c.reset(r, t, before)
	for _, rule := range c.rules {
		c.pass.rule, c.pass.reported = rule, 0
		rule.Run(&c.pass)
	}
	if len(c.pass.violations) == 0 {
		return nil
	}
	return append([]Violation(nil), c.pass.violations...)
}

// CheckRule applies one rule to the request of the last Check, for another target. The result is valid until the next
// check.
func (c *Checker) CheckRule(rule *Rule, r *facts.Request, t wire.Target, before *Before) []Violation {
	if schemeOf(t) != c.pairing.scheme {
		c.pair(r, t, before)
	}
	c.reset(r, t, before)
	c.pass.rule = rule
	rule.Run(&c.pass)
	return c.pass.violations
}

// Pairing returns the calls and replies of the last request. The result is valid until the next check.
func (c *Checker) Pairing() *Pairing { return &c.pairing }

func (c *Checker) pair(r *facts.Request, t wire.Target, before *Before) {
	var chain *Chain
	if before != nil {
		chain = before.Chain
	}
	c.pairing.reset(r, t, chain)
}

func (c *Checker) reset(r *facts.Request, t wire.Target, before *Before) {
	c.pass = Pass{Request: r, Target: t, Before: before, Pairing: &c.pairing, set: &c.set, violations: c.pass.violations[:0]}
}

// A Pass is the application of the rules to one request. Rules read Request and Pairing and call Report.
type Pass struct {
	Request *facts.Request
	Target  wire.Target
	// Before describes the conversation before the request; nil if nothing is known.
	Before *Before
	// Pairing matches the calls and replies of Request. It is computed once per request and shared by all rules.
	Pairing *Pairing

	set        *Set
	rule       *Rule
	reported   int // violations reported by rule
	violations []Violation
}

// Before describes the answers that a request builds on.
type Before struct {
	Chain *Chain // the answer that previous_response_id names; nil if it was not seen
	// Signed contains the signatures of the answer before the request. Copy is the index of the message that repeats
	// this answer, or -1.
	Signed []facts.Signed
	Copy   int
}

// A Chain describes the answer that previous_response_id names.
type Chain struct {
	Calls   []facts.ResponseCall // calls that the agent must answer
	Earlier Caller               // earlier answers of the conversation, which the provider stores too; nil if they are unknown
}

// A Caller knows the calls of answers.
type Caller interface {
	Called(id []byte) bool // whether an answer has a call with this id
}

// maxPerRule limits the violations per rule and request, so that a hostile body cannot exhaust memory.
const maxPerRule = 1000

// Report records a defect of message i. Only the first 1,000 defects per rule are retained.
func (p *Pass) Report(i int, callID []byte, toolName []byte, detail, format string, args ...any) {
	p.ReportAs(p.Severity(), i, callID, toolName, detail, format, args...)
}

// ReportAs is like Report, but with a severity that differs from the severity of the rule. For example, OpenAI rejects
// audio in a tool message, but no longer images.
func (p *Pass) ReportAs(s Severity, i int, callID []byte, toolName []byte, detail, format string, args ...any) {
	p.report(s, i, 0, callID, toolName, detail, format, args)
}

// Severity returns the severity of the rule for the target.
func (p *Pass) Severity() Severity { return p.rule.Severity(p.Target) }

// ReportCall records a defect of call c, with a severity as in ReportAs.
func (p *Pass) ReportCall(s Severity, c *PairedCall, detail, format string, args ...any) {
	p.report(s, c.Message, c.Part, c.ID, c.Name, detail, format, args)
}

// ReportReply records a defect of reply r, with a severity as in ReportAs.
func (p *Pass) ReportReply(s Severity, r *Reply, toolName []byte, detail, format string, args ...any) {
	p.report(s, r.Message, r.Part, r.ID, toolName, detail, format, args)
}

func (p *Pass) report(s Severity, i, part int, callID, toolName []byte, detail, format string, args []any) {
	if p.reported++; p.reported > maxPerRule {
		return
	}
	p.violations = append(p.violations, Violation{
		Rule: p.rule, Predicted: s, Message: i, Part: part, ToolCallID: string(callID), ToolName: string(toolName),
		Detail: detail, Summary: fmt.Sprintf(format, args...),
	})
}
