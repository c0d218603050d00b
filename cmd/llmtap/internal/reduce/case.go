package reduce

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
	"github.com/llmtap/llmtap/ingest/dialect"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A Case is a conversation whose last request has a fault.
type Case struct {
	Target wire.Target
	Steps  []Step // in order
}

// A Step is an exchange.
type Step struct {
	Exchange string         // id, unique in the case
	Request  map[string]any // from Decode
	Answer   []any          // messages of the answer; none if the call failed
	Run      string         // id of the run of the agent, or ""
	Process  string         // instance of the hook, or ""
}

// A Fault is a violation for which the target rejects the last request of a Case.
type Fault struct {
	Rule, Detail, RootCause string
	Stored                  string // the stored root cause, which events of tools and runs may explain better; or ""
	ToolCallID              string
	Message                 int
	Summary, Fix            string
}

// same reports whether f is the fault g, perhaps in a shorter conversation.
func (f *Fault) same(g *Fault) bool {
	return f.Rule == g.Rule && f.Detail == g.Detail && f.RootCause == g.RootCause
}

// Decode decodes JSON for a Step.
func Decode[T any](text []byte) (v T, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return v, fmt.Errorf("read JSON: %w", err)
	}
	return v, nil
}

// Encode encodes a part of a Step.
func Encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("BUG: encode decoded JSON: %v", err))
	}
	return bytes.TrimSpace(b.Bytes())
}

// Faults returns the faults of the last request, in rule order. size is the number of bytes judged.
func (c *Case) Faults() (all []Fault, size int, err error) {
	judged := lint.NewExchanges(64 << 20)
	for i := range c.Steps {
		s := &c.Steps[i]
		body := Encode(s.Request)
		size += len(body)
		r := &facts.Request{}
		if err := facts.ScanRequest(c.Target.Dialect, body, r); err != nil {
			return nil, size, fmt.Errorf("read request: %w", err)
		}
		t := c.Target
		if t.Model == "" {
			t.Model = string(r.Model)
		}
		turn, findings := judged.Request(&session.Request{
			Service: "s", Conversation: "c", Exchange: s.Exchange, Instance: s.Process, Run: s.Run, Target: t, Facts: r, Body: body,
		})
		if i == len(c.Steps)-1 {
			return faults(findings), size, nil
		}
		a := new(facts.Response)
		answer := Response(c.Target.Dialect, s.Answer)
		size += len(answer)
		if len(s.Answer) == 0 || facts.ScanResponse(c.Target.Dialect, "", answer, a) != nil {
			a = nil
		}
		judged.Answer(turn, 0, a, false)
	}
	return nil, size, nil
}

func faults(findings []judge.Finding) (all []Fault) {
	for i := range findings {
		if f := &findings[i]; f.Predicted == check.Reject {
			all = append(all, Fault{
				Rule: f.Rule.ID, Detail: f.Detail, RootCause: f.Instance.Root.ID, ToolCallID: f.ToolCallID, Message: f.Message,
				Summary: f.Summary, Fix: f.Fix(),
			})
		}
	}
	return all
}

// Response returns the body of an answer with these messages, which has the finish reason that SDKs expect.
func Response(d wire.Dialect, messages []any) []byte {
	called := false
	for _, m := range messages {
		called = called || len(callIDs(m)) > 0
	}
	reason := d.Descriptor().StopReason
	if called {
		reason = d.Descriptor().CallsReason
	}
	return Encode(dialect.Of(d).Response(&dialect.Response{Finish: cmp.Or(reason, "STOP"), Messages: messages, Example: true}))
}
