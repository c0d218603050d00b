package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const problemsDoc = `Known defects of stages: state, versions, who is assigned, in which version they are fixed; with an id, also the fix and who did what.`

// maxProblems bounds the problems of an answer.
const maxProblems = 20

// A problemsInput selects problems.
type problemsInput struct {
	ID      string `json:"id,omitempty" jsonschema:"id of a problem"`
	Service string `json:"service,omitempty" jsonschema:"only this service"`
	Stage   string `json:"stage,omitempty" jsonschema:"only this stage"`
	State   string `json:"state,omitempty" jsonschema:"regressed, new, ongoing, acknowledged, resolved, ignored; default: open ones"`
}

// A problemList is the answer to a call without an id.
type problemList struct {
	Problems []problems.Problem `json:"problems"`
	Others   int                `json:"other_problems,omitempty"` // that match, too
	Closed   int                `json:"resolved_or_ignored,omitempty"`
}

func (t *tools) problems(ctx context.Context, in problemsInput) (answer, error) {
	api, err := t.Problems(ctx)
	if err != nil {
		return answer{}, err
	}
	if in.ID != "" {
		return oneProblem(ctx, api, in.ID)
	}
	var f problems.Filter
	for _, x := range []struct {
		value  string
		values *[]string
	}{{in.Service, &f.Service}, {in.Stage, &f.Stage}, {in.State, &f.State}} {
		if x.value != "" {
			*x.values = []string{x.value}
		}
	}
	if err := f.Validate(); err != nil {
		return answer{}, err
	}
	list, err := api.List(ctx, f)
	if err != nil {
		return answer{}, err
	}
	out := problemList{Problems: []problems.Problem{}}
	for _, p := range list {
		switch {
		case in.State == "" && problems.Closed(p.State):
			out.Closed++
		case len(out.Problems) == maxProblems:
			out.Others++
		default:
			out.Problems = append(out.Problems, p)
		}
	}
	var b strings.Builder
	fmt.Fprintln(&b, problems.Summary(out.Problems, out.Closed, `problems {"state":"resolved"} or {"state":"ignored"}`))
	if out.Others > 0 {
		fmt.Fprintf(&b, "%s left out: add a service and a stage.\n", quantity.Plural(out.Others, "further problem"))
	}
	for i := range out.Problems {
		p := &out.Problems[i]
		fmt.Fprintf(&b, "\n%s\n%s\nnext: %s\n", problems.Title(p), problems.Facts(p, time.Now()), step{"problems", problemsInput{ID: p.ID}})
	}
	return short(b.String(), out)
}

// oneProblem returns all that is known of a problem.
func oneProblem(ctx context.Context, api problems.API, prefix string) (answer, error) {
	id, err := problems.Find(ctx, api, prefix)
	if err != nil {
		return answer{}, err
	}
	d, err := api.Get(ctx, id)
	if err != nil {
		return answer{}, err
	}
	var b strings.Builder
	fmt.Fprintln(&b, problems.Title(&d.Problem))
	for _, f := range problems.Fields(&d, time.Now(), style()) {
		field(&b, f.Name, f.Text)
	}
	b.WriteString("\nHistory\n")
	for _, line := range problems.History(&d, style()) {
		fmt.Fprintln(&b, line)
	}
	next := incidentInput{Why: d.Cause}
	next.Service, next.Stage = d.Service, d.Stage
	fmt.Fprintf(&b, "\nnext: %s\n", step{"incident", next})
	return short(b.String(), d)
}
