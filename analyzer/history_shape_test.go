package analyzer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// stored plays exchanges of a conversation each, the first of which is number i, and returns the output of each.
func stored(t *testing.T, a *analyzer.Analyzer, service string, i int, requests ...string) []analyzer.Output {
	t.Helper()
	var all []analyzer.Output
	for ; len(requests) > 0; i, requests = i+1, requests[1:] {
		at := time.Date(2026, 11, 21, 8, i, 0, 0, time.UTC)
		var out analyzer.Output
		for j, body := range []string{requests[0], `{"choices":[{"index":0,"message":{"role":"assistant","content":"said in confidence"},"finish_reason":"stop"}]}`} {
			seq := uint64(2*i + j + 1)
			ev := event.Event{
				Kind: event.Request, Exchange: fmt.Sprintf("0197a0b0-0000-7000-8000-%012d", i), Time: at, Seq: seq, Instance: "i", Origin: event.OriginHook, Capture: event.CaptureFull,
				Part: 1, Parts: 1, BodyBytes: len(body), URL: "https://api.openai.com/v1/chat/completions", Method: "POST", Body: []byte(body),
				Labels: event.Labels{Service: service, Conversation: fmt.Sprint("conv-", i)},
			}
			if j == 1 {
				ev.Kind, ev.URL, ev.Method, ev.Status, ev.ContentType = event.Response, "", "", 200, "application/json"
			}
			at = at.Add(time.Second)
			a.Process(&ev, analyzer.Position{Seq: seq, Time: at}, true, &out)
		}
		all = append(all, out)
	}
	return all
}

const twoMessages = `{"model":"gpt-5","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"my secret plan"}]}`

// Bodies stored as shapes contain roles and ids and no texts.
func TestShapeContents(t *testing.T) {
	s := shape.New([]byte("key"))
	i := 0
	a := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
	a.KeepContents(func(string) bool { return true }, nil)
	a.ShapeContents(func(service string) bool { return service == "shaped" }, func(dialect string, answer bool, body []byte) []byte {
		if answer {
			return s.Response(wire.Dialect(dialect), body, 1<<20)
		}
		return s.Request(wire.Dialect(dialect), body, 1<<20)
	})
	for service, secret := range map[string]bool{"shaped": false, "full": true} {
		out := stored(t, a, service, i, twoMessages)[0]
		i++
		if len(out.Contents) < 3 || len(out.History) != 1 || len(out.Exchanges) != 1 {
			t.Fatalf("%s: %d contents, %d positions, %d exchanges", service, len(out.Contents), len(out.History), len(out.Exchanges))
		}
		for _, c := range out.Contents {
			text := strings.Contains(c.Body, "secret plan") || strings.Contains(c.Body, "confidence") || strings.Contains(c.Body, "brief")
			if c.Kind != content.KindParameters && text != secret {
				t.Errorf("%s: %s", service, c.Body)
			}
			if c.Kind == content.KindMessage && !strings.HasPrefix(c.Body, `{"role":"`) {
				t.Errorf("%s: message %s", service, c.Body)
			}
		}
		if e := out.Exchanges[0]; e.Messages != 2 || len(e.Lead) != 1 || e.Answer == "" {
			t.Errorf("%s: %+v", service, e)
		}
	}
}

// After ForgetContents shared contents are emitted again.
func TestForgetContents(t *testing.T) {
	a := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
	a.KeepContents(func(string) bool { return true }, nil)
	first := stored(t, a, "s", 0, twoMessages, twoMessages)
	kinds := func(out analyzer.Output) (k []string) {
		for _, c := range out.Contents {
			k = append(k, c.Kind)
		}
		return k
	}
	must.Agree(t, cmp.Diff([]string{content.KindMessage, content.KindAnswer}, kinds(first[1])), "the second conversation emits")
	a.ForgetContents()
	got := kinds(stored(t, a, "s", 2, twoMessages)[0])
	must.Equal(t, len(got), 4, "a conversation emits %v after ForgetContents", got)
}
