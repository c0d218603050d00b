package analyzer

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/session"
)

const (
	maxErrorText = 4 << 10  // bytes of Exchange.ErrorText
	maxErrorRead = 64 << 10 // bytes of an error answer that are searched for the cause
)

// explain determines the cause of a failed exchange from text, the provider's error text.
func (p *pending) explain(text []byte) {
	e := &p.row
	text = text[:min(len(text), maxErrorRead)]
	var paired func([]byte) (session.Pair, bool)
	if p.turn != nil {
		paired = p.turn.Paired
	}
	c := judge.Explain(cause.Input{Status: e.Status, Text: text, Variant: p.target.Variant}, p.findings, paired)
	for i := range p.findings {
		if p.findings[i].Refused {
			e.Rejects++
		}
	}
	e.Cause, e.CauseKnown, e.CauseClass, p.failed = c.ID, c.Known, c.Class, &failed{why: c}
	e.ErrorType = errorType(text, e.Status)
	e.ErrorText = limit.Text(cause.Redact(text), maxErrorText)
	e.ErrorCluster = cause.Cluster(e.ErrorText)
}

// errorType returns the type, code or status in the provider's error, in this order of preference, or else the HTTP
// status.
func errorType(text []byte, status int) string {
	type fault struct {
		Type, Code, Status any
		Error              json.RawMessage
	}
	var f fault
	for range 3 { // {"error": …}, which Gemini wraps in an array
		var list []json.RawMessage
		if json.Unmarshal(text, &list) == nil && len(list) > 0 {
			text = list[0]
		}
		f = fault{}
		if json.Unmarshal(text, &f) != nil || len(f.Error) == 0 || f.Error[0] != '{' {
			break
		}
		text = f.Error
	}
	for _, v := range [...]any{f.Type, f.Code, f.Status} {
		switch v := v.(type) {
		case string:
			if v != "" {
				return limit.Text(strings.ToValidUTF8(v, "\uFFFD"), 128)
			}
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	if status == 0 {
		return ErrorNoResponse
	}
	return strconv.Itoa(status)
}

// refused reports whether the provider refused the request for its content and would refuse it again.
func refused(e *Exchange) bool {
	c := cause.Cause{Class: e.CauseClass, Known: e.CauseKnown}
	return e.Failed && e.Status >= 400 && c.OfContent(e.Status)
}

// accepted reports whether the provider accepted the request.
func accepted(e *Exchange) bool { return e.Status >= 200 && e.Status < 300 && !e.Failed }

// failure returns a description of a failed call for humans.
func failure(status int, cause string) string {
	if status == 0 {
		return cause
	}
	return strconv.Itoa(status) + " (" + cause + ")"
}

// proof returns the finding that represents the exchange, or nil. The finding of a failed exchange must explain the
// failure: a request that failed because of a rate limit did not fail because of its history.
func (p *pending) proof() *judge.Finding {
	var best *judge.Finding
	score := 0
	for i := range p.findings {
		f := &p.findings[i]
		if p.row.Failed {
			// A text may name a violation in the words of another cause, so that no violation is of that cause.
			explains := cause.OfRule(f.Rule.ID) == p.row.Cause || f.Rule.ID == p.failed.why.Rule
			if !explains && (p.row.CauseKnown != cause.Conflict || f.Predicted != check.Reject) {
				continue
			}
		}
		if n := 1 + f.Instance.Root.Rank()*4 + f.Predicted.Rank(); n > score {
			best, score = f, n
		}
	}
	return best
}
