package analyzer_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// process analyzes the events of a stream, of which each n follow each other at one time: in one frame, or as messages of their own.
// The sequences of the result are those of the frames.
func (s *stream) process(t *testing.T, n int, framed bool) (out *analyzer.Output, remembered string) {
	t.Helper()
	a := newAnalyzer(t, analyzer.Default())
	out = new(analyzer.Output)
	a.KeepContents(func(string) bool { return true }, nil)
	events := 0
	var at time.Time
	for _, step := range s.steps {
		if step.ev == nil {
			events += (n - events%n) % n // the frame ends
		} else {
			if events%n == 0 {
				at = step.at.Time
			}
			step.at = analyzer.Position{Seq: uint64(1 + events/n), Index: events % n, Time: at}
			if !framed {
				step.at = analyzer.Position{Seq: uint64(event.MaxFrameEvents + events), Time: at}
			}
			events++
		}
		do(a, step, true, out)
	}
	if !framed {
		sequencesOfFrames(reflect.ValueOf(out).Elem(), n)
		out.Exchanges = newest(out.Exchanges, func(e *analyzer.Exchange) (string, uint64) { return e.ID, e.Seq })
		out.Findings = newest(out.Findings, func(f *analyzer.Finding) (string, uint64) { return f.ID, f.Seq })
		out.ToolCalls = newest(out.ToolCalls, func(c *analyzer.ToolCall) (string, uint64) { return c.ID, c.Seq })
		out.Runs = newest(out.Runs, func(r *analyzer.Run) (string, uint64) { return r.ID, r.Seq })
	}
	must.Equal(t, len(newest(slices.Clone(out.History), func(h *analyzer.HistoryEntry) (string, uint64) { return h.ID(), h.Seq })), len(out.History), "positions of one version")
	entries, _ := a.TakeLedger()
	return out, position.ReplaceAllString(string(must.Get(json.Marshal(entries))(t)), "")
}

// position matches the positions of ledger entries.
var position = regexp.MustCompile(`"(seq|nth)":\d+,?`)

// newest replaces the first row of each id and version by the last one, and removes the others.
func newest[R any](rows []R, key func(*R) (string, uint64)) []R {
	type version struct {
		id  string
		seq uint64
	}
	first, kept := map[version]int{}, rows[:0]
	for i := range rows {
		id, seq := key(&rows[i])
		at, ok := first[version{id, seq}]
		if ok {
			kept[at] = rows[i]
			continue
		}
		first[version{id, seq}] = len(kept)
		kept = append(kept, rows[i])
	}
	return kept
}

// sequencesOfFrames replaces the sequences of messages in v by those of the frames that would contain them.
func sequencesOfFrames(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case f.Name == "Seq" && f.Type.Kind() == reflect.Uint64 && v.Type() != reflect.TypeFor[event.Event]():
				if seq := v.Field(i).Uint(); seq > 0 {
					v.Field(i).SetUint(1 + (seq-event.MaxFrameEvents)/uint64(n))
				}
			case f.IsExported():
				sequencesOfFrames(v.Field(i), n)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			sequencesOfFrames(v.Index(i), n)
		}
	default: // has no sequence
	}
}

// The rows and tallies of conversations do not depend on whether their events arrive in frames.
func TestFrames(t *testing.T) {
	checked, every := 0, 1000/slowtest.Tenth(t, 100) // with the flag -slow, every tenth one
	recordedConversations(t, func(n int, c *recorded) {
		if n%every != 0 {
			return
		}
		for _, c := range []*recorded{c, c.broken(n / 10)} {
			for _, id := range []string{"given", ""} {
				s := newStream(id)
				s.play(c)
				s.advance(2 * analyzer.Default().SessionLookback)
				for _, size := range []int{2, 5, event.MaxFrameEvents} {
					want, known := s.process(t, size, false)
					got, knows := s.process(t, size, true)
					if !reflect.DeepEqual(want, got) { // in a tenth of the time of cmp.Diff
						must.Agree(t, cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })), "frames of", size)
					}
					must.Equal(t, knows, known, "ledger with frames of %d", size)
				}
				checked++
			}
		}
	})
	t.Log(checked, "conversations")
}
