package mend

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/agenttest"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/repair"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// agents counts the repairs of the requests of one kind of agent.
type agents struct{ requests, refused, repaired, lenient, nothing, lost, known int }

// TestAgents repairs what broken agents send in all dialects: each refused request that the rules find at fault is repaired, and
// what healthy agents send is not touched.
func TestAgents(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	var pool []*agenttest.Run
	recordedtest.Lines(t, recordedtest.Conversations, func(_ int, line []byte) {
		if r, ok := agenttest.Parse(line); ok {
			pool = append(pool, r)
		}
	})
	runs := uint64(2)
	if *all {
		runs = 20
	}
	for _, group := range []struct {
		name  string
		kinds []*agenttest.Kind
	}{{"broken", agenttest.Broken}, {"healthy", agenttest.Healthy}} {
		t.Run(group.name, func(t *testing.T) {
			var table strings.Builder
			for _, k := range group.kinds {
				var n agents
				for _, d := range agenttest.Dialects {
					for seed := range runs {
						h := fnv.New64a()
						fmt.Fprint(h, k.Name, d.Name, seed)
						if p, ok := agenttest.Play(k, d, pool, h.Sum64()); ok {
							repairRun(t, fmt.Sprintf("%s/%s/%d", k.Name, d.Name, seed), p, group.name == "healthy", &n)
						}
					}
				}
				fmt.Fprintf(&table, "%-34s %5d requests %5d refused %5d repaired %4d with lenient %4d no fault found %5d lost %5d without the answers\n",
					k.Name, n.requests, n.refused, n.repaired, n.lenient, n.nothing, n.known, n.lost)
			}
			t.Log("\n" + table.String())
		})
	}
}

func repairRun(t *testing.T, name string, p *agenttest.Played, healthy bool, n *agents) {
	status := map[string]int{}
	for _, ev := range p.Events {
		if ev.Kind == event.Response {
			status[ev.Exchange] = ev.Status
		}
	}
	answers, urls := map[string][][]byte{}, map[string]string{}
	for _, ev := range p.Events {
		conversation := ev.Labels.Conversation + "/" + ev.Instance
		switch {
		case ev.Kind == event.Response && ev.Status == 200:
			target := records.TargetOf(urls[ev.Exchange], "", "", nil)
			for _, m := range records.Answer(target.Dialect, ev.Body) {
				answers[conversation] = append(answers[conversation], m)
			}
			continue
		case ev.Kind != event.Request:
			continue
		}
		urls[ev.Exchange] = ev.URL
		target := records.TargetOf(ev.URL, "", "", ev.Body)
		n.requests++
		res, err := repair.Repair(target, ev.Body, repair.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if healthy || status[ev.Exchange] == 200 {
			if healthy && len(res.Steps) > 0 {
				t.Errorf("%s: healthy, but %s: %s", name, res.Steps[0].Rule, res.Steps[0].Reason)
			}
			continue
		}
		if status[ev.Exchange] != 400 {
			continue
		}
		n.refused++
		o := repair.Options{Answers: answers[conversation]}
		with, err := repair.Repair(target, ev.Body, o)
		if err == nil && len(with.Steps) == 0 {
			o.Lenient = true
			with, err = repair.Repair(target, ev.Body, o)
		}
		if err != nil {
			t.Errorf("%s: with answers: %v\n%s\n%s", name, err, ev.Body, bytes.Join(o.Answers, []byte("\n")))
			continue
		}
		switch {
		case len(with.Steps) == 0:
			n.nothing++
		case o.Lenient:
			n.lenient++
		default:
			n.repaired++
		}
		if res, err = repair.Repair(target, ev.Body, repair.Options{Lenient: o.Lenient}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		n.lost += len(res.Lost())
		n.known += len(with.Lost())
		for i, r := range []*repair.Result{res, with} {
			for _, v := range r.Left {
				if v.Predicted == check.Reject {
					t.Errorf("%s: left: %s", name, v.Summary)
				}
			}
			if i == 0 {
				o.Answers = nil
			} else {
				o.Answers = answers[conversation]
			}
			again, err := repair.Repair(target, r.Body, o)
			if err != nil || len(again.Steps) > 0 {
				t.Errorf("%s: again: %v %+v", name, err, again.Steps)
			}
			var f facts.Request
			must.Do(t, facts.ScanRequest(target.Dialect, r.Body, &f), name)
		}
	}
}
