package analyzer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// answeredBy adds n calls that a model answers, each in a conversation of its own.
func (y *years) answeredBy(n int, model string) {
	for range n {
		y.talks++
		y.labels.Service, y.labels.Stage, y.labels.ServiceVersion, y.labels.Conversation = "shop", "planner", "1.4.0", fmt.Sprintf("talk %d", y.talks)
		id := y.exchange()
		y.request(id, user("q"))
		b := strings.Replace(string(answer(assistant("a"))), `"model":"deepseek-chat"`, `"model":"`+model+`"`, 1)
		y.response(id, 200, []byte(b))
	}
}

// changedModels returns the summaries of the rows of the signal, and how often the tallies count it.
func changedModels(out *analyzer.Output) (rows []string, counted uint64) {
	_, findings, _ := latest(out)
	for _, f := range findings {
		if f.Rule == signals.ModelChanged {
			rows = append(rows, f.Summary+"; "+f.Evidence)
		}
	}
	slices.Sort(rows)
	return rows, signalCount(out, signals.ModelChanged)
}

// A model that answers the requests of a stage instead of another is told once, and what is no change is not.
func TestModelChanged(t *testing.T) {
	f := func(name string, script func(y *years), want ...string) {
		t.Helper()
		y := newYears()
		script(y)
		y.advance(10 * time.Second)
		rows, counted := changedModels(run(t, analyzer.Default(), y.steps))
		must.Agree(t, cmp.Diff(want, rows))
		must.Equal(t, int(counted), len(want), "%s: counted", name)
	}
	f("a new snapshot", func(y *years) {
		y.answeredBy(60, "v3-0324")
		y.now = y.now.Add(3 * time.Hour)
		y.answeredBy(30, "v3-0528")
		y.answeredBy(30, "v3-0324") // back
		y.answeredBy(30, "v3-0528")
	}, "deepseek-chat is now v3-0528, was v3-0324; since 2026-11-21 11:02 UTC; before, v3-0324 answered at least 60 calls of the stage")
	f("another one", func(y *years) {
		y.answeredBy(60, "a")
		y.answeredBy(60, "b")
		y.answeredBy(60, "c")
	}, "deepseek-chat is now b, was a; since 2026-11-21 08:02 UTC; before, a answered at least 60 calls of the stage",
		"deepseek-chat is now c, was b; since 2026-11-21 08:04 UTC; before, b answered at least 60 calls of the stage")
	f("too few calls before", func(y *years) { y.answeredBy(49, "a"); y.answeredBy(60, "b") })
	f("odd answers", func(y *years) { y.answeredBy(60, "a"); y.answeredBy(9, "b") })
	f("both from the start", func(y *years) {
		for range 60 {
			y.answeredBy(1, "a")
			y.answeredBy(1, "b")
		}
	})
	f("a router", func(y *years) {
		for range 60 {
			for _, m := range []string{"a", "b", "c", "d"} {
				y.answeredBy(1, m)
			}
		}
		y.answeredBy(60, "e")
	})
	f("another stage", func(y *years) {
		y.answeredBy(60, "a")
		for i := len(y.steps) - 2; i < len(y.steps); i++ {
			y.steps[i].ev.Labels.Stage = "other"
		}
	})
}

// A change is told by the process that continues, of this partitioning of the stream or another.
func TestModelChangedAfterRestart(t *testing.T) {
	y := newYears()
	y.answeredBy(60, "a")
	y.answeredBy(5, "b")
	a, kept := newAnalyzer(t, analyzer.Default()), savedLedger{}
	for _, s := range y.steps {
		do(a, s, true, new(analyzer.Output))
	}
	kept.take(t, a)
	before := len(y.steps)
	y.answeredBy(30, "b")
	for _, own := range []bool{true, false} {
		b, out := newAnalyzer(t, analyzer.Default()), new(analyzer.Output)
		kept.give(t, b, own)
		for _, s := range y.steps[before:] {
			do(b, s, true, out)
		}
		rows, _ := changedModels(out)
		must.Equal(t, len(rows), 1, "rows, own %v", own)
	}
}

// A gateway that makes up a name for each answer does not change the ledger with each call.
func TestInventedModels(t *testing.T) {
	y := newYears()
	for i := range 100 {
		y.answeredBy(1, fmt.Sprint("m", i))
	}
	a := newAnalyzer(t, analyzer.Default())
	for _, s := range y.steps {
		do(a, s, true, new(analyzer.Output))
	}
	changed, gone := a.TakeLedger()
	models := slices.DeleteFunc(changed, func(e ledger.Entry) bool { return e.Kind != ledger.KindModel })
	must.Equal(t, len(models), 16, "models")
	must.Equal(t, len(gone), 0, "deleted entries")
}
