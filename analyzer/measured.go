package analyzer

import (
	"github.com/llmtap/llmtap/analyzer/dist"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Measured is what was measured of accepted calls. A call without a value, such as one whose usage is not reported, is in none of the
// distributions.
type Measured struct {
	Duration     dist.Dist `json:"ms,omitzero"`   // in milliseconds
	FirstToken   dist.Dist `json:"ttft,omitzero"` // of streams: until the first byte of the answer, in milliseconds
	InputTokens  dist.Dist `json:"in,omitzero"`
	OutputTokens dist.Dist `json:"out,omitzero"`
	History      dist.Dist `json:"history,omitzero"` // messages of the request, unless a part is stored by the provider
	Cost         dist.Dist `json:"cost,omitzero"`    // in microdollars, where the price of the model is known
	// Unpriced are the calls with usage that are not in Cost because the price of the model is unknown.
	Unpriced uint64 `json:"unpriced,omitzero"`
}

// dists returns all distributions.
func (m *Measured) dists() [6]*dist.Dist {
	return [...]*dist.Dist{&m.Duration, &m.FirstToken, &m.InputTokens, &m.OutputTokens, &m.History, &m.Cost}
}

// newMeasured returns one with room for the values of a call, in one piece.
func newMeasured() *Measured {
	m := new(struct {
		Measured
		room [6]dist.Count
	})
	for i, d := range m.dists() {
		d.Buckets = m.room[i : i : i+1]
	}
	return &m.Measured
}

// Merge adds what o has.
func (m *Measured) Merge(o *Measured) {
	from := o.dists()
	for i, d := range m.dists() {
		d.Merge(from[i])
	}
	m.Unpriced += o.Unpriced
}

// Reset removes all values and keeps the memory.
func (m *Measured) Reset() {
	for _, d := range m.dists() {
		d.Reset()
	}
	m.Unpriced = 0
}

// add adds the call p. Prices are those of the configuration.
func (m *Measured) add(p *pending, prices *price.Lookup) {
	e := &p.row
	add := func(d *dist.Dist, v int64) {
		if v > 0 {
			d.Add(uint64(v))
		}
	}
	add(&m.Duration, e.Duration.Milliseconds())
	if e.Stream {
		add(&m.FirstToken, e.FirstByte.Milliseconds())
	}
	add(&m.InputTokens, e.InputTokens)
	add(&m.OutputTokens, e.OutputTokens)
	add(&m.History, int64(p.history))
	if e.InputTokens <= 0 && e.OutputTokens <= 0 {
		return
	}
	tokens := price.Tokens{Input: e.InputTokens, Cached: e.CachedTokens, Written: e.CacheWritten, Hour: e.CacheHour, Output: max(0, e.OutputTokens)}
	if cost := prices.Of(e.Provider, e.Model); cost != nil {
		add(&m.Cost, int64(cost.Microdollars(tokens)+0.5))
	} else {
		m.Unpriced++
	}
}

// jsonBytes returns an upper bound on the JSON size of m, for at most 1e6 calls.
func (m *Measured) jsonBytes() int {
	n := 192
	for _, d := range m.dists() {
		n += 12 * len(d.Buckets)
	}
	return n
}

// measures reports whether p is measured: the agent read an answer to the end. What a failed call takes says nothing of the others,
// and the answer to a new batch nothing of its calls.
func measures(p *pending) bool {
	e := &p.row
	return e.Retry == 0 && accepted(e) && e.ErrorType == "" && !p.batch
}

// How an answer ended. All but EndedNormal are values of the label ended.
const (
	EndedNormal   = "normal"
	EndedLimit    = "limit"    // cut off at a token limit
	EndedEmpty    = "empty"    // neither text nor a call
	EndedRefused  = "refused"  // the model refuses
	EndedFiltered = "filtered" // a filter of the provider withheld it
)

// ended returns how the complete answer r of a call that did not fail ended, also EndedNormal if that is not known. Dialects in
// which an answer without text may have parts that are no facts are never empty with such parts.
func ended(d wire.Dialect, r *facts.Response) string {
	switch {
	case r.Cut || r.Malformed || r.FinishReason == "":
		return EndedNormal
	case wire.AtTokenLimit(r.FinishReason):
		return EndedLimit
	case wire.Filtered(r.FinishReason):
		return EndedFiltered
	case r.Refused || r.FinishReason == "refusal":
		return EndedRefused
	}
	content := r.ContentBytes > 0 || len(r.Calls) > 0 || r.OtherCalls || r.ServerUse || r.Media || r.FinishReason == "function_call"
	switch d {
	case wire.OpenAIChat, wire.Anthropic, wire.Bedrock:
	case wire.OpenAIResponses, wire.Interactions:
		content = content || r.Content == facts.Null || r.FinishReason != "completed"
	default:
		content = content || r.Content == facts.Null
	}
	if content {
		return EndedNormal
	}
	return EndedEmpty
}

// OddID returns the id of the problem that answers end like this.
func OddID(ended string) string { return "answer_" + ended }

// An odd describes how an answer can end, and what to do about it.
type odd struct{ summary, fix string }

var odds = map[string]odd{
	EndedLimit:    {"the answer was cut off at the token limit", "Raise the token limit of the request, or ask for less per answer; look at how long histories are."},
	EndedEmpty:    {"the answer has neither text nor a tool call", "Do not take it for the end of the task: ask again, and log the finish reason. Look at what changed in the prompt or the model."},
	EndedRefused:  {"the model refuses to answer", "Read the last messages of the conversation: what is refused is in them, or in a changed system prompt."},
	EndedFiltered: {"a filter of the provider withheld the answer", "Read the last messages of the conversation, and the settings of the provider's filter."},
}

// Odd returns what OddID or ToolError means, as the rest of a sentence, and what to do; "" if id is none.
func Odd(id string) (summary, fix string) {
	if id == ToolError {
		return toolErrorSummary, toolErrorFix
	}
	for ended, o := range odds {
		if OddID(ended) == id {
			return o.summary, o.fix
		}
	}
	return "", ""
}

// oddExample returns the example of p, whose answer ended oddly, for alerts.
func oddExample(p *pending) Example {
	e, o := &p.row, odds[p.row.Ended]
	return Example{
		Finding: true, Exchange: e.ID, Conversation: e.Conversation, Full: e.Capture == event.CaptureFull, Status: e.Status, Message: -1,
		Summary: o.summary, Fix: o.fix, PublishedAt: e.StoredAt.UnixNano(),
	}
}

// ToolError is the id of the problem that replies of tools report errors.
const ToolError = "tool_errors"

const (
	toolErrorSummary = "the reply of a tool reports an error"
	toolErrorFix     = "Read the reply in the conversation. If the arguments are wrong, look at what changed in the prompt, the model or the tool's description; otherwise repair the tool."
)

// toolErrorExample returns the example of the reply to c in the request of p, which reports an error, for alerts.
func toolErrorExample(p *pending, c *session.Call) Example {
	e := &p.row
	return Example{
		Finding: true, Exchange: e.ID, Conversation: e.Conversation, Full: e.Capture == event.CaptureFull, Status: e.Status, Message: c.ReplyMessage,
		ToolCallID: limit.Text(c.CallID, maxExampleText), ToolName: limit.Name(c.Name),
		Summary: "the reply of " + limit.Name(c.Name) + " reports an error", Fix: toolErrorFix, PublishedAt: e.StoredAt.UnixNano(),
	}
}
