package web

import (
	"context"
	"net/http"
	"time"

	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	timelinePath = "/timeline"
	// A gap in which nothing runs is drawn as an idle line if it is longer than idleGap and a tenth of the time in which something runs.
	idleGap = 5 * time.Second
)

// A timelinePage draws the calls and tools of a conversation or a run over time.
type timelinePage struct {
	*site
	store
}

// ServeHTTP serves the page of the conversation or run that the URL names.
func (s timelinePage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.pageSince(r, "Timeline", trafficPath+"calls", "24h")
	p.Own = true
	switch {
	case p.Get("conversation") != "":
		p.Title = "Conversation " + short(60, p.Get("conversation"))
	case p.Get("run") != "":
		p.Title = "Run " + short(60, p.Get("run"))
	default:
		s.notFound(w, r)
		return
	}
	s.serve(w, r, p, section{id: "timeline", template: "timeline", title: p.Title, load: func(ctx context.Context) (any, error) { return s.load(ctx, p.View) }})
}

// A timeline is what happened, in order, on an axis of 1,000 units without the idle times.
type timeline struct {
	Lines                         []timelineLine
	Calls, Failed, Tools, Retries int64
	Input, Output, Unpriced       int64
	Cost                          float64
	Money, Took, Busy             string // cost, the time from the first to the last, and that without idle times
	Conversation                  string // URL; empty if the page is about a run
	Cut                           bool   // there is more
}

// A timelineLine is a call, a tool call, or an idle time.
type timelineLine struct {
	Kind, Name, URL string // call, tool or idle
	After           string // after the first, in words
	X, W, Wait      float64
	Took            string
	Status          int64
	Failed          bool
	Cause           string
	Messages, Added int64 // of the request, and those that the request before did not have
	Input, Output   int64
	Cost            string
	Retry           int64
	Depth           int    // of the agent in those that called it
	Agent           string // whose calls begin here, if it is nested
	exchange        string
}

// Class is the color of the bar.
func (l *timelineLine) Class() string {
	switch {
	case l.Failed:
		return "c1"
	case l.Kind == "tool":
		return "c6"
	}
	return "c3"
}

func (s timelinePage) load(ctx context.Context, v *View) (*timeline, error) {
	q, err := Statement("timeline")
	if err != nil {
		return nil, err
	}
	e := &exploration{Query: q, View: v}
	t, err := s.run(ctx, q, e.values(), v.Now)
	if err != nil {
		return nil, err
	}
	out := &timeline{}
	var spans []Span
	agents := nesting{}
	history := map[string]int64{} // by conversation
	for _, r := range rowsOf(t) {
		l := timelineLine{
			Kind: r.Text("kind"), Name: r.Text("name"), URL: idURL("exchange", r.Text("exchange")), Status: r.Int64("status"), Failed: r["failed"] == true || r.Int64("failed") == 1,
			Cause: r.Text("cause"), Messages: r.Int64("messages"), Input: r.Int64("input_tokens"), Output: r.Int64("output_tokens"), Retry: r.Int64("retry"), exchange: r.Text("exchange"),
		}
		seconds := r.Float("seconds")
		l.Took = latency(seconds)
		began := r.Time("began")
		spans = append(spans, Span{began, began.Add(time.Duration(seconds * float64(time.Second)))})
		if l.Kind == "tool" {
			out.Tools++
			out.Lines = append(out.Lines, l)
			continue
		}
		if seconds > 0 {
			l.Wait = min(1, r.Float("first_byte")/seconds) // of W; scaled below
		}
		conversation := r.Text("conversation")
		l.Added = max(0, l.Messages-history[conversation])
		history[conversation] = l.Messages
		agents.add(r, spans[len(spans)-1])
		out.count(&l)
		if r["cost"] == nil {
			out.Unpriced++
		} else {
			out.Cost += r.Float("cost")
			l.Cost = cents(r.Float("cost"))
		}
		out.Lines = append(out.Lines, l)
	}
	out.Money = "–"
	if out.Unpriced < out.Calls+out.Retries {
		out.Money = cents(out.Cost)
	}
	out.Cut = out.Calls+out.Retries >= 500
	if id := v.Get("conversation"); id != "" {
		out.Conversation = idURL("conversation", id)
	}
	agents.indent(out.Lines)
	out.draw(spans)
	return out, nil
}

func (t *timeline) count(l *timelineLine) {
	if l.Retry > 0 {
		t.Retries++
		return
	}
	t.Calls++
	if l.Failed {
		t.Failed++
	}
	t.Input, t.Output = t.Input+l.Input, t.Output+l.Output
}

// draw places the lines on the axis, and adds those of idle times.
func (t *timeline) draw(spans []Span) {
	if len(spans) == 0 {
		return
	}
	end := spans[0].From
	busy := time.Duration(0)
	for _, s := range spans { // in order of their starts
		if s.To.After(end) {
			busy += s.To.Sub(later(s.From, end))
			end = s.To
		}
	}
	t.Took, t.Busy = took(end.Sub(spans[0].From)), took(busy)
	idle := max(idleGap, busy/10)
	end = spans[0].From
	var skipped time.Duration
	starts := make([]time.Duration, len(spans))
	gaps := map[int]time.Duration{}
	for i, s := range spans {
		if gap := s.From.Sub(end); gap > idle {
			gaps[i] = gap
			skipped += gap
		}
		starts[i] = s.From.Sub(spans[0].From) - skipped
		end = later(end, s.To)
	}
	total := max(end.Sub(spans[0].From)-skipped, time.Millisecond)
	scale := 1000 / float64(total)
	var lines []timelineLine
	for i, l := range t.Lines {
		if gap := gaps[i]; gap > 0 {
			lines = append(lines, timelineLine{Kind: "idle", Name: quantity.Span(gap) + " in which nothing ran"})
		}
		l.X, l.W = float64(starts[i])*scale, max(2, float64(spans[i].To.Sub(spans[i].From))*scale)
		l.Wait *= l.W
		l.After = "0 s"
		if after := spans[i].From.Sub(spans[0].From); after > 0 {
			l.After = "+" + took(after)
		}
		lines = append(lines, l)
	}
	t.Lines = lines
}

// took returns a time in words, a short one exactly; – if it is not known.
func took(d time.Duration) string {
	if d < 10*time.Second {
		return latency(d.Seconds())
	}
	return quantity.Span(d)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
