package analyzer

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/wire"
)

// Bounds of what bodies put into rows, in bytes.
const (
	maxErrorText = 4 << 10  // Exchange.ErrorText
	maxErrorRead = 64 << 10 // of an error answer, to find its cause
)

// open is a request that waits for its response.
type open struct {
	row     Exchange
	target  wire.Target
	turn    *session.Turn // nil when the request was not judged
	found   []judge.Finding
	signals []signal // put out with the exchange
	dropped uint64   // exchanges that its process had dropped before
	run     *run     // nil when it has no run
	nth     uint64   // in its run
	alone   bool     // no other call of the run was under way

	maxTokens int64  // that the request allows; 0 when it does not say
	forced    bool   // the request leaves the model no choice of tools
	sum       uint64 // hash of the request
	contents  content.Time
}

// size is about the memory that o takes, with the conversation that may have no one else who needs it.
func (o *open) size() int {
	n := 1536
	if o.turn != nil {
		n += 2048
	}
	for i := range o.found {
		n += 512 + len(o.found[i].ToolCallID)
	}
	return n
}

// keyOf is the id by which the halves of an exchange find each other. An exchange of an import has the same id in each
// import, and each is read on its own.
func keyOf(ev *event.Event) string {
	if ev.Origin == event.OriginImport {
		return ev.Exchange + "@" + ev.Instance
	}
	return ev.Exchange
}

// seen is when what ev says was known: when the stream had it, or, of recorded traffic, when it was recorded.
func seen(ev *event.Event, at Position) time.Time {
	if ev.Origin == event.OriginImport {
		return ev.Time
	}
	return at.Time
}

// request reads and judges a request and begins its row; need is the oldest sequence it was made from.
func (a *Analyzer) request(ev *event.Event, at Position, need uint64) *open {
	host, _, path := wire.SplitURL(ev.URL)
	o := &open{dropped: ev.Dropped}
	in := a.strings // the row may wait long for its response
	o.row = Exchange{
		ID: strings.Clone(ev.Exchange), Seq: at.Seq, Labels: in.labels(ev), StartedAt: ev.Time, Server: in.string(host), Path: in.string(path),
		RequestBytes: ev.BodyBytes, Retry: ev.Retry, Instance: in.string(ev.Instance), InstanceSeq: ev.Seq, Origin: in.string(ev.Origin),
		Capture: in.string(ev.Capture), Degraded: ev.Degraded,
	}
	o.row.Conversation = o.row.Labels.Conversation
	a.target(o, facts.Detect(ev.URL, "", nil))
	body, ok := a.body(ev, at)
	if !ok {
		a.stubbed(o, ev)
		return o
	}
	o.row.RequestBytes = len(body)
	if o.target.Dialect == wire.Other { // the body may tell
		a.target(o, facts.Detect(ev.URL, "", body))
	}
	if o.target.Dialect == wire.Other {
		return o
	}
	o.row.Operation = "chat"
	err := a.scan(&o.row, o.target.Dialect, body)
	o.row.Stream, o.row.Messages = a.req.Stream || wire.Streams(path), len(a.req.Messages)
	a.target(o, o.target.WithModel(a.strings.name(a.req.Model)))
	switch {
	case err != nil:
		a.dead(dropUnreadable, ev, at, err)
	case ev.Degraded: // what is absent is no evidence, and a history with holes explains nothing
	default:
		a.judge(o, body, at, seen(ev, at), need)
		a.watchRequest(o, body)
		a.contents.request(o, body, at)
	}
	return o
}

// stubbed takes from the first bytes of a stubbed request what cannot be otherwise in the rest.
func (a *Analyzer) stubbed(o *open, ev *event.Event) {
	body := stub(ev)
	if body == nil {
		return
	}
	if o.target.Dialect == wire.Other {
		a.target(o, facts.Detect(ev.URL, "", body))
	}
	if o.target.Dialect == wire.Other {
		return
	}
	o.row.Operation = "chat"
	_ = facts.ScanRequest(o.target.Dialect, body, &a.req) // it ends early, as a stub does
	o.row.Stream = a.req.Stream || wire.Streams(o.row.Path)
	a.target(o, o.target.WithModel(a.strings.name(a.req.Model)))
}

// target sets who judges a request, as far as that is known by now.
func (a *Analyzer) target(o *open, t wire.Target) {
	t.Model = a.strings.string(limit.Name(t.Model))
	o.target = t
	o.row.Dialect, o.row.Variant, o.row.Provider, o.row.Model = string(t.Dialect), string(t.Variant), t.Provider(), t.Model
}

// complete ends an exchange with its response and puts out its rows; need is the oldest sequence it was made from.
func (a *Analyzer) complete(o *open, ev *event.Event, at Position, need uint64) {
	e := &o.row
	e.Seq, e.StoredAt = at.Seq, at.Time
	e.Status, e.Duration, e.FirstByte, e.ProviderRequestID = ev.Status, ev.Duration, ev.FirstByte, ev.ProviderRequestID
	e.ResponseBytes = ev.BodyBytes
	text := []byte(ev.Error)
	body, ok := a.body(ev, at)
	a.res = facts.Response{}
	if ok {
		e.ResponseBytes = len(body)
	} else {
		body = stub(ev)
	}
	if e.Status >= 400 && len(body) > 0 {
		text = body
	}
	if ok && o.target.Dialect != wire.Other && facts.ScanResponse(o.target.Dialect, ev.ContentType, body, &a.res) == nil {
		a.answered(o, ev, at, need)
		a.contents.answer(o, body, at)
		if err := unreadable(ev, &a.res); err != nil {
			a.dead(dropUnreadable, ev, at, err)
		}
	}
	inBand := e.Status >= 200 && e.Status < 300 && len(a.res.Error) > 0 && !a.res.Malformed
	if inBand {
		text = a.res.Error
	}
	cancelled := ev.Cancelled()
	e.Failed = e.Status >= 400 || inBand || e.Status == 0 && !cancelled
	switch {
	case e.Failed:
		a.explain(o, text)
	case cancelled:
		e.ErrorType = ErrorCancelled
	case ev.Error != "":
		e.ErrorType, e.ErrorText = ErrorCutShort, limit.Text(cause.Redact(text), maxErrorText)
	}
	a.watchAnswer(o, ev, inBand)
	a.used(need)
	if _, over := a.done.get(keyOf(ev)); !over { // given up, with what there was
		a.remember(keyOf(ev), completed(need))
	}
	a.report(o, need)
}

// answered takes over what the answer says and makes its tool calls known. An answer that the agent did not read to its
// end has no calls that it must answer.
func (a *Analyzer) answered(o *open, ev *event.Event, at Position, need uint64) {
	e, r := &o.row, &a.res
	e.ResponseModel, e.ResponseID, e.FinishReason = limit.Name(r.Model), limit.Name(r.ID), limit.Name(r.FinishReason)
	e.InputTokens, e.OutputTokens, e.CachedTokens = r.InputTokens, r.OutputTokens, r.CachedTokens
	e.ToolCalls = len(r.Calls)
	if o.turn == nil || !judge.Usable(e.Status, r) {
		return
	}
	cut := ev.Error != "" && r.FinishReason == ""
	var asker *asker
	if len(r.Calls) > 0 {
		asker = a.askerOf(o)
	}
	a.asked(o, a.judging.Answer(o.turn, session.Answer{Facts: r, Seq: at.Seq, Need: need, At: seen(ev, at), Cut: cut, Asker: asker}), at.Seq)
}

// explain says why a failed exchange failed.
func (a *Analyzer) explain(o *open, text []byte) {
	e := &o.row
	text = text[:min(len(text), maxErrorRead)]
	var rejected []string
	for i := range o.found {
		if o.found[i].Predicted == check.Reject {
			rejected = append(rejected, o.found[i].Rule.ID)
		}
	}
	c := cause.Classify(cause.Input{Status: e.Status, Text: text, Rules: rejected, Variant: o.target.Variant})
	e.Cause, e.CauseKnown, e.CauseClass = c.ID, c.Known, c.Class
	e.ErrorType = errorType(text, e.Status)
	e.ErrorText = limit.Text(cause.Redact(text), maxErrorText)
	e.ErrorCluster = cause.Cluster(e.ErrorText)
}

// errorType is the provider's error type, else its code, else the status.
func errorType(text []byte, status int) string {
	type fault struct {
		Type, Code, Status any
		Error              json.RawMessage
	}
	var f fault
	for range 3 { // {"error": …}, or the array around it that Gemini sends
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

// giveUpOpen ends the oldest request without its response. Where the response may have been sent and lost, or come by
// another way, this is no failure. Of an import that was broken off, the file has the response.
func (a *Analyzer) giveUpOpen() {
	it := a.takeOpen(a.open.First().Key)
	a.remember(it.Key, completed(it.MinSeq)|expired)
	o := it.Value
	if o.row.Origin == event.OriginImport {
		a.drop(dropImport)
		return
	}
	o.row.StoredAt = it.Deadline
	if o.row.Degraded || a.mayBeLost(o) {
		o.row.ErrorType = ErrorLost
	} else {
		o.row.Failed = true
		a.explain(o, nil)
	}
	a.report(o, it.MinSeq)
}

// giveUpEarly makes a row from the oldest response whose request did not come.
func (a *Analyzer) giveUpEarly() {
	it := a.early.TakeFirst()
	a.remember(it.Key, completed(it.MinSeq)|expired)
	ev := &it.Value.ev
	a.held -= it.Value.size()
	if ev.Origin == event.OriginImport {
		a.drop(dropImport)
		return
	}
	o := &open{target: wire.Target{Dialect: wire.Other, Variant: wire.OtherVariant}}
	o.row = Exchange{
		ID: ev.Exchange, Labels: a.strings.labels(ev), StartedAt: ev.Time.Add(-ev.Duration), Conversation: ev.Labels.Conversation,
		Dialect: string(wire.Other), Variant: string(wire.OtherVariant), Instance: ev.Instance, InstanceSeq: ev.Seq,
		Origin: ev.Origin, Capture: ev.Capture, Degraded: ev.Degraded,
	}
	a.complete(o, ev, it.Value.at, it.MinSeq)
}
