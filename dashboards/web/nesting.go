package web

import (
	"strings"

	"github.com/llmtap/llmtap/dashboards/stored"
)

// maxDepth is the maximum depth that a timeline shows.
const maxDepth = 4

// An agentCalls is the time of the calls of one agent: of a service, a conversation, and a trace and span of its own tracing.
type agentCalls struct {
	name  string
	time  Span
	depth int
}

// A nesting finds out which agents called others. Spans say which calls belong together, but not which span is the parent of another:
// an agent is nested in those of its trace that began before its first call and ended after its last.
type nesting struct {
	calls  []agentCall
	agents map[[5]string]*agentCalls
}

// An agentCall is a call, and whose it is.
type agentCall struct {
	exchange string
	key      [5]string
}

// add adds a call, a row of the statement timeline.
func (n *nesting) add(r stored.Row, s Span) {
	key := [5]string{r.Text("of_service"), r.Text("conversation"), r.Text("of_agent"), r.Text("span"), r.Text("trace")}
	if n.agents == nil {
		n.agents = map[[5]string]*agentCalls{}
	}
	n.calls = append(n.calls, agentCall{r.Text("exchange"), key})
	a, ok := n.agents[key]
	if !ok {
		n.agents[key] = &agentCalls{name: strings.Trim(key[0]+"/"+key[2], "/"), time: s}
		return
	}
	a.time.To = later(a.time.To, s.To)
}

// indent sets the depth of lines.
func (n *nesting) indent(lines []timelineLine) {
	for k, a := range n.agents {
		for in, b := range n.agents {
			if trace := k[4]; trace == "" || in[4] != trace {
				continue
			}
			if b.time.From.Before(a.time.From) && b.time.To.After(a.time.To) && a.depth < maxDepth {
				a.depth++
			}
		}
	}
	of := map[string]*agentCalls{}
	for _, c := range n.calls {
		of[c.exchange] = n.agents[c.key]
	}
	named := map[*agentCalls]bool{}
	for i := range lines {
		l := &lines[i]
		a := of[l.exchange]
		if a == nil {
			continue
		}
		if l.Depth = a.depth; a.depth > 0 && !named[a] {
			named[a], l.Agent = true, a.name
		}
	}
}
