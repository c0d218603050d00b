package analyzer

import (
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/wire"
)

// watchAnswer finds the signals that the answer in a.res shows; inBand says that it is a success with an error in it.
func (a *Analyzer) watchAnswer(o *open, ev *event.Event, inBand bool) {
	e, r := &o.row, &a.res
	if o.turn != nil {
		a.overtaken(o, ev)
	}
	if inBand {
		where := "the body"
		if e.Stream {
			where = "the stream"
		}
		a.once(o, signal{
			id: StreamErrorIn200, detail: e.Cause, message: -1,
			summary:  fmt.Sprintf("%s of an answer with status %d ends in an error: %s", where, e.Status, e.ErrorType),
			evidence: fmt.Sprintf("status %d, then %s", e.Status, limit.Text(e.ErrorText, maxExampleText)),
			fix:      "Look for an error in the body before taking an answer with status 200 for one.",
		})
		return
	}
	// Of an answer that is not whole here, nobody can say how it ended.
	if e.Status < 200 || e.Status > 299 || e.Degraded || ev.Degraded || ev.Capture == event.CaptureCut || ev.Cancelled() || r.Malformed || o.target.Dialect == wire.Other {
		return
	}
	if e.Stream && r.Cut && (ev.Error == "" || brokenOff(ev.Error)) && ev.BodyBytes > 0 && !a.mayBeLost(o) {
		a.once(o, signal{
			id: StreamCut, message: -1,
			summary:  "the stream ended without its last event",
			evidence: fmt.Sprintf("%d bytes came, %d tool calls in them, and no finish reason; %s", e.ResponseBytes, len(r.Calls), orNone(ev.Error)),
			fix:      "Take no call from a stream that did not end; ask again.",
		})
	}
	if ev.Error != "" {
		return
	}
	a.truncated(o)
	if !r.Cut {
		a.finish(o)
	}
}

// brokenOff reports whether a hook's error says that the connection ended, not that the agent stopped reading.
func brokenOff(why string) bool {
	why = strings.ToLower(why)
	for _, s := range [...]string{"eof", "reset", "broken pipe", "timeout", "timed out", "deadline", "peer closed", "incomplete", "terminated", "premature"} {
		if strings.Contains(why, s) {
			return true
		}
	}
	return false
}

func orNone(text string) string {
	if text == "" {
		return "the connection was closed in order"
	}
	return limit.Text(cause.Redact([]byte(text)), maxExampleText)
}

// truncated finds a call whose arguments end where the tokens did.
func (a *Analyzer) truncated(o *open) {
	r := &a.res
	at := ""
	switch {
	case len(r.Calls) == 0:
		return
	case wire.AtTokenLimit(r.FinishReason):
		at = "length"
	case o.maxTokens > 0 && r.OutputTokens >= o.maxTokens:
		at = "max_tokens"
	default:
		return
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		broken := c.Args == facts.ArgsTruncated || c.Args == facts.ArgsBad || at == "length" && c.Args == facts.ArgsEmpty
		if c.ArgsKind != facts.String || !broken {
			continue
		}
		a.once(o, signal{
			id: TruncatedToolCall, detail: at, message: -1, callID: limit.Text(c.ID, limit.CallIDBytes), tool: c.Name, key: c.ID,
			summary:  fmt.Sprintf("the arguments of call %s end before their JSON does", limit.Name(c.Name)),
			evidence: fmt.Sprintf("finish reason %s, %d output tokens of at most %d", limit.Name(r.FinishReason), r.OutputTokens, o.maxTokens),
			fix:      "Raise the token limit or ask for less at once; do not run or save the call.",
		})
	}
}

// finish finds an answer whose finish reason says otherwise than its calls do. Where a tool was forced, the makers
// themselves answer stop; Gemini and Ollama always do.
func (a *Analyzer) finish(o *open) {
	r := &a.res
	d := o.target.Dialect.Descriptor()
	if d.CallsReason == "" {
		return
	}
	gemini := strings.Contains(strings.ToLower(o.target.Model), "gemini") || o.target.Variant == wire.GeminiOpenAI
	s := signal{id: FinishMismatch, message: -1, fix: "Decide by the calls of an answer, not by its finish reason."}
	switch {
	case r.FinishReason == d.CallsReason && len(r.Calls) == 0 && !r.OtherCalls:
		s.detail, s.key, s.summary = "no_calls", "no_calls", "the answer says that it calls tools, and calls none"
	case r.FinishReason == d.StopReason && len(r.Calls) > 0 && !o.forced && !gemini && o.target.Variant != wire.Ollama:
		s.detail, s.key, s.summary = "calls", "calls", "the answer calls tools, and its finish reason says that it calls none"
	default:
		return
	}
	s.evidence = fmt.Sprintf("finish reason %s, %d tool calls", limit.Name(r.FinishReason), len(r.Calls))
	a.repeated(o, s)
}

// clockSkew is how far the clocks of two processes may be apart.
const clockSkew = 5 * time.Second

// overtaken tells that another request went into the history before the answer to this one had ended. The stream may
// bring that request before the end of the answer, so the times of the processes decide.
func (a *Analyzer) overtaken(o *open, ev *event.Event) {
	by := o.turn.Overtaken()
	if by == nil || ev.Cancelled() || ev.Error != "" && !brokenOff(ev.Error) {
		return // when the agent stopped reading, nobody knows
	}
	margin := time.Duration(0)
	if o.row.Origin == event.OriginHook && by.Instance != o.row.Instance {
		margin = clockSkew
	}
	both := ev.Time.Sub(by.Sent)
	if both <= margin {
		return
	}
	a.repeated(o, signal{
		id: ConcurrentRequests, message: -1,
		summary:  "two requests of one history were under way at once",
		evidence: fmt.Sprintf("exchange %s was sent %v before the answer to this one had ended", by.Exchange, both.Round(time.Millisecond)),
		fix:      "Let one run at a time write into a conversation: take a lock, or queue the second request until the first is saved.",
	})
}

// watchFailure finds the signals of a failed exchange.
func (a *Analyzer) watchFailure(o *open) {
	e := &o.row
	s := signal{message: -1, evidence: limit.Text(e.ErrorText, maxExampleText)}
	switch {
	case e.Status == 0:
		s.id, s.detail, s.summary = NoResponse, "error", "no answer came"
		if e.ErrorText == "" {
			s.detail, s.evidence = "timeout", fmt.Sprintf("no response event within %v", a.cfg.ExchangeTimeout)
		}
		s.fix = "Look at the provider, the network and the process itself: it may have ended during the call."
	case (e.Status == 400 || e.Status == 422) && e.Cause == "unexplained" && e.Rejects == 0:
		s.id, s.key = Unexplained400, e.ErrorCluster
		s.summary = fmt.Sprintf("status %d, and neither its text nor the request says why", e.Status)
		s.fix = "Read the text, and compare the request with the last one that was accepted."
	case e.CauseKnown == cause.Conflict:
		shows := ""
		for i := range o.found {
			if f := &o.found[i]; f.Predicted == check.Reject {
				shows, s.message, s.callID = f.Rule.ID, f.Message, f.ToolCallID
				break
			}
		}
		s.id, s.detail, s.key = ErrorRuleMismatch, e.Cause, e.Cause+" "+shows
		s.summary = fmt.Sprintf("the provider speaks of %s, the request shows %s", e.Cause, shows)
		s.fix = "Look for a gateway that changes requests on the way; else mend what the request shows first."
	default:
		return
	}
	a.once(o, s)
}
