package signals

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Answered finds the signals of an answer. r contains the facts of the event ev.
func (d *Detector) Answered(x *Exchange, ev *event.Event, r *facts.Response) {
	if x.Turn != nil {
		d.overlap(x, ev)
	}
	if x.InBand {
		where := "the body"
		if x.Stream {
			where = "the stream"
		}
		d.once(x, Signal{
			ID: StreamErrorIn200, Detail: x.Cause, Message: -1,
			Summary:  fmt.Sprintf("%s of an answer with status %d ends in an error%s", where, x.Status, errorType(x.ErrorType)),
			Evidence: fmt.Sprintf("status %d, then %s", x.Status, limit.Text(x.ErrorText, maxText)),
			Fix:      "Check the body for an error before using an answer with status 200.",
		})
		return
	}
	// Without the whole answer, the end is unknown.
	if x.Status < 200 || x.Status > 299 || x.Degraded || ev.Degraded || ev.Capture == event.CaptureCut || ev.Cancelled() || r.Malformed || x.Target.Dialect == wire.Other {
		return
	}
	if x.Stream && r.Cut && (ev.Error == "" || connectionBroke(ev.Error)) && ev.BodyBytes > 0 && !x.MayBeLost {
		how := "the connection was closed normally"
		if ev.Error != "" {
			how = limit.Text(cause.Redact([]byte(ev.Error)), maxText)
		}
		d.once(x, Signal{
			ID: StreamCut, Message: -1,
			Summary:  "the stream ended without its last event",
			Evidence: fmt.Sprintf("%d bytes arrived with %d tool calls and no finish reason; %s", x.ResponseBytes, len(r.Calls), how),
			Fix:      "Do not use calls from a stream that was cut off; retry.",
		})
	}
	if ev.Error != "" {
		return
	}
	d.truncated(x, r)
	if !r.Cut {
		d.finishReason(x, r)
	}
}

var identifier = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// errorType returns the type of an error to append to a sentence; "" if it is not an identifier, because it may then quote a
// message.
func errorType(s string) string {
	if !identifier.MatchString(s) {
		return ""
	}
	return ": " + s
}

// connectionBroke reports whether a hook's error means that the connection ended, rather than that the agent stopped
// reading.
func connectionBroke(err string) bool {
	err = strings.ToLower(err)
	for _, s := range [...]string{"eof", "reset", "broken pipe", "timeout", "timed out", "deadline", "peer closed", "incomplete", "terminated", "premature"} {
		if strings.Contains(err, s) {
			return true
		}
	}
	return false
}

// truncated finds calls whose arguments end at the token limit.
func (d *Detector) truncated(x *Exchange, r *facts.Response) {
	limited := ""
	switch {
	case len(r.Calls) == 0:
		return
	case wire.AtTokenLimit(r.FinishReason):
		limited = "length"
	case x.Request.MaxTokens > 0 && r.OutputTokens >= x.Request.MaxTokens:
		limited = "max_tokens"
	default:
		return
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		broken := c.Args == facts.ArgsTruncated || c.Args == facts.ArgsBad || limited == "length" && c.Args == facts.ArgsEmpty
		if c.ArgsKind != facts.String || !broken {
			continue
		}
		d.once(x, Signal{
			ID: TruncatedToolCall, Detail: limited, Message: -1, CallID: limit.Text(c.ID, limit.CallIDBytes), Tool: c.Name, Key: c.ID,
			Summary:  fmt.Sprintf("the arguments of call %s end before their JSON does", limit.Name(c.Name)),
			Evidence: fmt.Sprintf("finish reason %s, %d output tokens of at most %d", limit.Name(r.FinishReason), r.OutputTokens, x.Request.MaxTokens),
			Fix:      "Raise the token limit or ask for less per answer; do not run or save the call.",
		})
	}
}

// finishReason finds an answer whose finish reason contradicts its calls. It does not report "stop" with calls if a
// tool was forced, because OpenAI itself answers that, nor for Gemini and Ollama, which always do.
func (d *Detector) finishReason(x *Exchange, r *facts.Response) {
	dialect := x.Target.Dialect.Descriptor()
	if dialect.CallsReason == "" {
		return
	}
	gemini := strings.Contains(strings.ToLower(x.Target.Model), "gemini") || x.Target.Variant == wire.GeminiOpenAI
	s := Signal{ID: FinishMismatch, Message: -1, Fix: "Check the calls of an answer, not its finish reason."}
	switch {
	case r.FinishReason == dialect.CallsReason && len(r.Calls) == 0 && !r.OtherCalls:
		s.Detail, s.Key, s.Summary = "no_calls", "no_calls", "the finish reason says that the answer calls tools, and it calls none"
	case r.FinishReason == dialect.StopReason && len(r.Calls) > 0 && !x.Request.Forced && !gemini && x.Target.Variant != wire.Ollama:
		s.Detail, s.Key, s.Summary = "calls", "calls", "the answer calls tools, and its finish reason says that it does not"
	default:
		return
	}
	s.Evidence = fmt.Sprintf("finish reason %s, %d tool calls", limit.Name(r.FinishReason), len(r.Calls))
	d.repeated(x, s)
}

// clockSkew is the allowed difference between the clocks of two processes.
const clockSkew = 5 * time.Second

// overlap finds another request that was sent into the history before the answer to this request had ended. The stream
// may deliver the other request before the end of the answer, so the clocks of the processes decide.
func (d *Detector) overlap(x *Exchange, ev *event.Event) {
	by := x.Turn.Overtaken()
	if by == nil || ev.Cancelled() || ev.Error != "" && !connectionBroke(ev.Error) {
		return // the time when the agent stopped reading is unknown
	}
	margin := time.Duration(0)
	if x.Origin == event.OriginHook && by.Instance != x.Instance {
		margin = clockSkew
	}
	both := ev.Time.Sub(by.Sent)
	if both <= margin {
		return
	}
	d.repeated(x, Signal{
		ID: ConcurrentRequests, Message: -1,
		Summary:  "two requests of one history were in flight at the same time",
		Evidence: fmt.Sprintf("LLM call %s was sent %v before the answer to this one had ended", by.Exchange, both.Round(time.Millisecond)),
		Fix:      "Let only one run at a time write to a conversation: take a lock, or queue the second request until the first is saved.",
	})
}
