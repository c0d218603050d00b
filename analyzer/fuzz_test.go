package analyzer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// FuzzProcess feeds events made from random bytes: nothing panics, the stream time of tallies never goes back, every row
// has its id, and an idle day leaves no state.
func FuzzProcess(f *testing.F) {
	bodies := [][]byte{
		nil, []byte("{"), body(msg{"model": "m", "messages": []msg{user("q"), tool("call_1", "x")}}),
		body(msg{"messages": []msg{user("q"), assistant("", "call_1 f"), tool("call_1", "x")}}),
		body(msg{"messages": []msg{user("q"), assistant(""), tool("call_1", "x"), tool("", "y")}}),
		answer(assistant("", "call_1 f", "call_1 g", " h")), answer(assistant("a text that is longer than 32 bytes, surely")),
		fault(orphanText), []byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"), gzipped([]byte("{}")),
	}
	f.Add([]byte("\x00\x02\x10\x00\x01\x05\x10\x00\x00\x03\x12\x00\x01\x07\x11\x00"))
	f.Add([]byte("\x01\x05\x00\x00\x00\x02\x00\x00\x08\x00\xff\xff\x00\x03\x21\x40"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg := analyzer.Default()
		cfg.MaxStateBytes, cfg.SessionLookbackBytes, cfg.MaxLabelValues = 1<<20, 1<<20, 2
		a := newAnalyzer(t, cfg)
		out := new(analyzer.Output)
		now := epoch
		seq := uint64(0)
		for ; len(data) >= 4; data = data[4:] {
			kind, what, who, wait := data[0], data[1], data[2], data[3]
			now = now.Add(time.Duration(int8(wait)) * time.Duration(int(kind>>4)+1) * 100 * time.Millisecond)
			if kind&8 != 0 {
				a.Advance(now, true, out)
				continue
			}
			seq++
			ev := &event.Event{
				Kind: event.Kind(kind & 7), Exchange: fmt.Sprintf("x%d", who&15), Time: now, URL: "https://api.openai.com/v1/chat/completions",
				Status: [...]int{200, 400, 0, 500}[what>>6], Body: bodies[int(what)%len(bodies)], Retry: int(who >> 7), Part: 1, Parts: 1,
				Labels: event.Labels{Service: fmt.Sprintf("s%d", who>>6)}, Instance: fmt.Sprintf("i%d", who&3), Seq: uint64(what), Dropped: uint64(wait & 7),
			}
			if wait&64 != 0 {
				ev.Seq, ev.Error = seq, []string{"context canceled", "unexpected EOF"}[wait&1]
			}
			if wait == 0x7f {
				ev.Seq, ev.Dropped = 1<<63-uint64(who), 1<<63-uint64(what)
			}
			if kind&0xe0 == 0xe0 {
				ev.Origin, ev.Degraded, ev.Capture = []string{event.OriginImport, ""}[what&1], what&2 != 0, []string{event.CaptureCut, event.CaptureNone}[who&1]
			}
			if who&16 != 0 {
				ev.Labels.Conversation = fmt.Sprintf("c%d", who&3)
			}
			if who&32 != 0 {
				ev.Part, ev.Parts, ev.BodyBytes = int(what&3), int(who&3)+1, len(ev.Body)*(int(who&3)+1)
			}
			if what&32 != 0 {
				ev.ContentEncoding = "gzip"
			}
			a.Process(ev, analyzer.Position{Seq: seq, Time: now}, true, out)
			if from := a.ReplayFrom(); from > seq {
				t.Fatalf("replay from %d after %d", from, seq)
			}
		}
		a.Advance(now.Add(24*time.Hour), true, out)
		a.Advance(now.Add(48*time.Hour), true, out)
		// Only an event releases the request of the last response.
		a.Process(&event.Event{Kind: event.Run}, analyzer.Position{Seq: seq + 1, Time: now.Add(49 * time.Hour)}, true, out)
		must.Equal(t, a.ReplayFrom(), 0, "replay from, after two idle days")
		for i := 1; i < len(out.Tallies); i++ {
			if out.Tallies[i].Second <= out.Tallies[i-1].Second {
				t.Errorf("second %d after %d", out.Tallies[i].Second, out.Tallies[i-1].Second)
			}
		}
		for _, e := range out.Exchanges {
			if e.ID == "" || e.Seq == 0 || e.StoredAt.IsZero() || e.Failed != (e.Cause != "") {
				t.Errorf("exchange %+v", e)
			}
		}
		for _, d := range out.Dead {
			if d.Reason == "" || d.Error == "" || d.Seq == 0 || d.Event.Exchange == "" {
				t.Errorf("dead letter %+v", d)
			}
		}
		for _, x := range out.Findings {
			if len(x.ID) != 32 || len(x.Fingerprint) != 16 || x.Severity == "" || x.FirstSeen.IsZero() || x.Fix == "" {
				t.Errorf("finding %+v", x)
			}
		}
		for _, c := range out.ToolCalls {
			if len(c.ID) != 32 || c.Labels.Service == "" || c.AskedAt.IsZero() {
				t.Errorf("tool call %+v", c)
			}
		}
	})
}
