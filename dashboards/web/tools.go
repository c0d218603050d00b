package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/llmtap/llmtap/ingest/quantity"
)

// A toolsPage shows tool calls.
type toolsPage struct {
	*site
	store
}

// ServeHTTP serves the page of tool calls without a reply.
func (s toolsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.page(r, "Tool calls", "/calls")
	s.serve(w, r, p, section{id: "tools", template: "tools", title: "Tools, the most harmful first", load: func(ctx context.Context) (any, error) { return s.list(ctx, p.View) }})
}

// A toolList is the data of the page.
type toolList struct {
	Verdict string
	Bad     bool
	Tools   []tool
}

// A tool is what became of the calls of a tool by a stage.
type tool struct {
	Tool, Service, Stage                                                                           string
	Calls, Unanswered, Missing, Abandoned, Open, Running, Late, Duplicate, Rejected, Errors, Wrong int64
	OpenSince                                                                                      Time
	Example, ExampleCall                                                                           string // URL, and the id of the call
	Slow                                                                                           float64
}

// States returns the numbers of calls that did not end well, in words.
func (t tool) States() string {
	var out []string
	for _, x := range []struct {
		n    int64
		name string
	}{
		{t.Missing, "missing"},
		{t.Abandoned, "abandoned"},
		{t.Open, "open for over 10 min"},
		{t.Late, "late"},
		{t.Duplicate, "answered twice"},
		{t.Rejected, "reply rejected"},
		{t.Running, "running"},
	} {
		if x.n > 0 {
			out = append(out, quantity.Count(x.n)+" "+x.name)
		}
	}
	return strings.Join(out, ", ")
}

func (s toolsPage) list(ctx context.Context, v *View) (*toolList, error) {
	rows, err := s.query(ctx, "tools", v.values(), v.Now)
	if err != nil {
		return nil, err
	}
	out := &toolList{}
	var calls, unanswered, wrong int64
	for _, r := range rows {
		t := tool{
			Tool: r.Text("tool_name"), Service: r.Text("service"), Stage: r.Text("stage"), Calls: r.Int64("calls"), Unanswered: r.Int64("unanswered"),
			Missing: r.Int64("missing"), Abandoned: r.Int64("abandoned"), Open: r.Int64("open_long"), Running: r.Int64("running"), Late: r.Int64("late"),
			Duplicate: r.Int64("duplicate"), Rejected: r.Int64("rejected"), Errors: r.Int64("tool_errors"), OpenSince: v.At(r.Time("open_since")),
			ExampleCall: r.Text("example_call"), Slow: r.Float("p95"),
		}
		t.Wrong = t.Late + t.Duplicate + t.Rejected
		if id := r.Text("example"); id != "" {
			t.Example = "/conversation/" + url.PathEscape(id)
		}
		calls, unanswered, wrong = calls+t.Calls, unanswered+t.Unanswered, wrong+t.Wrong
		out.Tools = append(out.Tools, t)
	}
	switch {
	case unanswered > 0:
		worst := out.Tools[0]
		out.Bad = true
		out.Verdict = fmt.Sprintf("%s of %s got no reply (%s).", quantity.Count(unanswered), quantity.Plural(calls, "tool call"), quantity.Share(unanswered, calls))
		if len(out.Tools) > 1 {
			out.Verdict += fmt.Sprintf(" Most: %s of %s, %s of %s.", worst.Tool, subject(worst.Service, worst.Stage), quantity.Count(worst.Unanswered), quantity.Plural(worst.Calls, "call"))
		}
		if wrong > 0 {
			out.Verdict += fmt.Sprintf(" Replies to %s were late, sent twice, or rejected by the provider.", quantity.Plural(wrong, "other call"))
		}
	case wrong > 0:
		out.Bad = true
		out.Verdict = fmt.Sprintf("Every one of %s got a reply, but %s late, twice, or in a request that the provider rejected.", quantity.Plural(calls, "tool call"), quantity.Count(wrong))
	case calls > 0:
		out.Verdict = fmt.Sprintf("Every one of %s got its reply, or may still run.", quantity.Plural(calls, "tool call"))
	}
	return out, nil
}
