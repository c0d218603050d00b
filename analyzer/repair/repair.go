package repair

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// Options say what is known besides the request. The zero value is valid.
type Options struct {
	// Answers are messages of the model, in the form in which a request of the dialect repeats them: what earlier answers
	// contained. Calls that the history has lost are taken from them.
	Answers [][]byte
	// Cause is the cause with which the provider has refused the history, from its error text, or "". Violations that explain it
	// are repaired although the rules do not predict a refusal.
	Cause string
	// Lenient also repairs what only other providers are known to refuse, for a history that the provider has refused although
	// the rules do not predict it.
	Lenient bool
}

// A Step is one repair.
type Step struct {
	Rule    string      `json:"rule"`    // id of the violated rule
	Message int         `json:"message"` // 0-based index of the message before the step; -1 for the request itself
	Reason  string      `json:"reason"`  // what was wrong
	Repair  string      `json:"repair"`  // what the step does
	Lost    []string    `json:"lost"`    // what the history no longer contains, one entry per message, part or value
	Patch   []Operation `json:"patch"`
}

// A Result is a repaired request.
type Result struct {
	Body  []byte // the repaired request; the same bytes as before if there are no steps
	Steps []Step
	// Left are the violations that the provider would still refuse, because there is no repair for them.
	Left []check.Violation
}

// Lost returns what all steps have lost.
func (r *Result) Lost() (all []string) {
	for i := range r.Steps {
		all = append(all, r.Steps[i].Lost...)
	}
	return all
}

// Patch returns the operations of all steps as one JSON patch.
func (r *Result) Patch() []Operation {
	all := []Operation{}
	for i := range r.Steps {
		all = append(all, r.Steps[i].Patch...)
	}
	return all
}

// maxSteps bounds the repairs of one history, and maxRounds the number of times that it is checked.
const (
	maxSteps  = 100_000
	maxRounds = 1_000
)

// ErrTooMany is the error for a history with more violations than can be repaired.
var ErrTooMany = errors.New("too many violations to repair")

// Repair repairs a request body, or a bare array of messages, for t. An error means that body is not a request of this dialect,
// or that the rules cannot judge all of it.
func Repair(t wire.Target, body []byte, o Options) (*Result, error) {
	if !jsonscan.Valid(body) {
		return nil, errors.New("read request: not JSON")
	}
	f := fixing{target: t, checker: check.NewChecker(rules.InOrder), options: o, body: body}
	res := &Result{}
	for round := 0; ; round++ {
		broken, err := f.check()
		if err != nil {
			return nil, err
		}
		if round == maxRounds || len(res.Steps) > maxSteps {
			return nil, ErrTooMany
		}
		steps, err := f.round(broken)
		if err != nil {
			return nil, err
		}
		if len(steps) == 0 {
			res.Body, res.Left = f.body, broken
			return res, nil
		}
		res.Steps = append(res.Steps, steps...)
	}
}

// fixing is the repair of one request.
type fixing struct {
	target  wire.Target
	dialect *wire.Descriptor
	checker *check.Checker
	options Options

	body    []byte
	request facts.Request
	base    string // JSON pointer of the messages
	pairs   *check.Pairing
	answers []answer // of options, scanned when they are needed
	scanned bool
}

// check checks the request and returns the violations that the provider refuses.
func (f *fixing) check() (broken []check.Violation, err error) {
	if f.target.Dialect == wire.Other {
		return nil, check.Complete(&f.request, f.target)
	}
	scan := facts.ScanRequest
	f.dialect = f.target.Dialect.Descriptor()
	f.base = "/" + f.dialect.Messages
	if f.body[jsonscan.Space(f.body, 0)] == '[' {
		scan, f.base = facts.ScanMessages, ""
	}
	if err := scan(f.target.Dialect, f.body, &f.request); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	t := f.target
	if t.Model == "" {
		t.Model = string(f.request.Model)
	}
	if err := check.Complete(&f.request, t); err != nil {
		return nil, err
	}
	for _, v := range f.checker.Check(&f.request, t, f.before()) {
		if v.Predicted == check.Reject || f.options.Lenient && v.Predicted == check.Lenient || f.options.Cause != "" && v.Rule.Cause == f.options.Cause {
			broken = append(broken, v)
		}
	}
	f.pairs = f.checker.Pairing()
	return broken, nil
}

// before describes the answer whose signed reasoning the request repeats with a change, so that the rules find it; nil if there
// is none.
func (f *fixing) before() *check.Before {
	if f.target.Dialect != wire.Anthropic || len(f.options.Answers) == 0 {
		return nil
	}
	for i := range f.request.Messages {
		m := &f.request.Messages[i]
		if a := f.answerOf(m); a != nil && m.Signed != 0 && a.Signed != m.Signed {
			return &check.Before{Copy: i, Signed: []facts.Signed{{Hash: a.Signed, Thought: a.Thought}}}
		}
	}
	return nil
}

// round repairs the violations of the first rule that can be repaired.
func (f *fixing) round(broken []check.Violation) ([]Step, error) {
	for _, x := range fixers {
		var of []check.Violation
		for _, v := range broken {
			if v.Rule == x.rule {
				of = append(of, v)
			}
		}
		if len(of) == 0 {
			continue
		}
		if x.all != nil {
			of = x.all(f, of[0])
		}
		if steps, err := f.steps(x, of); len(steps) > 0 || err != nil {
			return steps, err
		}
	}
	return nil, nil
}

// steps repairs violations from the last to the first, as long as a step touches only messages before all those that earlier
// steps have touched, so that their indices are still right.
func (f *fixing) steps(x fixer, of []check.Violation) (steps []Step, err error) {
	d := draft{fixing: f, low: len(f.request.Messages)}
	for _, v := range slices.Backward(of) {
		e := edit{fixing: f, violation: &v}
		if v.Message >= 0 && v.Message >= d.low && len(steps) > 0 || !x.fix(&e) || len(e.ops) == 0 {
			continue
		}
		if done, err := d.apply(&e); err != nil {
			return nil, fmt.Errorf("repair %s: %w", v.Rule.ID, err)
		} else if !done {
			continue
		}
		if e.restores != nil {
			e.restores.restored = true
		}
		steps = append(steps, Step{
			Rule: v.Rule.ID, Message: v.Message, Reason: v.Summary, Repair: strings.Join(e.did, "; "),
			Lost: append([]string{}, e.lost...), Patch: e.ops,
		})
	}
	if len(steps) == 0 {
		return nil, nil
	}
	body := d.text()
	if !hasElements(body, f.base) && value(body, f.base) != nil {
		o := Operation{Op: "add", Path: f.base + "/0", Value: f.userMessage(beginning)}
		if body, err = apply(body, o); err != nil {
			return nil, fmt.Errorf("repair %s: %w", x.rule.ID, err)
		}
		last := &steps[len(steps)-1]
		last.Patch = append(last.Patch, o)
		last.Repair += "; adds a user message, because no message is left"
	}
	f.body = body
	return steps, nil
}

// beginning is the text of a user message that takes the place of what is missing.
const beginning = "(The beginning of this conversation is missing.)"

// hasElements reports whether the array at a pointer has elements.
func hasElements(text []byte, pointer string) bool {
	for range children(value(text, pointer), 0) {
		return true
	}
	return false
}

// An edit collects the operations of one step. Fixers read the history as it was before the step.
type edit struct {
	*fixing

	violation *check.Violation
	ops       []Operation
	did, lost []string
	restores  *answer // the answer whose calls the step restores
}

func (e *edit) op(name, path string, v []byte) {
	e.ops = append(e.ops, Operation{Op: name, Path: path, Value: v})
}

func (e *edit) add(path string, v []byte)     { e.op("add", path, v) }
func (e *edit) replace(path string, v []byte) { e.op("replace", path, v) }
func (e *edit) remove(path string)            { e.op("remove", path, nil) }

func (e *edit) move(from, path string) {
	if from != path {
		e.ops = append(e.ops, Operation{Op: "move", From: from, Path: path})
	}
}

// say adds a clause about what the step does.
func (e *edit) say(format string, args ...any) { e.did = append(e.did, fmt.Sprintf(format, args...)) }

// lose records what the history no longer contains.
func (e *edit) lose(format string, args ...any) {
	e.lost = append(e.lost, fmt.Sprintf(format, args...))
}

// message returns the JSON pointer of message i.
func (e *edit) message(i int) string { return e.base + "/" + itoa(i) }

// raw returns the value at a pointer in message i, which starts with a slash.
func (e *edit) raw(i int, pointer string) []byte {
	m := &e.request.Messages[i]
	return value(e.body[m.Start:m.End], pointer)
}
