package analyzer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// years is a stream of many conversations, each with one call whose history has an orphaned reply.
type years struct {
	*stream
	talks int
}

func newYears() *years { return &years{stream: newStream("")} }

var orphan = []msg{user("go on"), assistant("All is well."), tool("call_1", "x")}

// send adds a call of a new conversation of a service version, which is answered with 200 or with text.
func (y *years) send(service, version, text string, history ...msg) string {
	y.talks++
	return y.resend(fmt.Sprintf("talk %d", y.talks), service, version, text, history...)
}

func (y *years) resend(talk, service, version, text string, history ...msg) string {
	y.labels.Service, y.labels.ServiceVersion, y.labels.Conversation = service, version, talk
	if text == "" {
		return y.ok(assistant("fine"), history...)
	}
	return y.fail(400, text, history...)
}

// week adds n accepted calls in a week, alternating between the services.
func (y *years) week(n int, services ...string) {
	for i := range n {
		y.send(services[i%len(services)], "1.4.0", "", orphan...)
		y.now = y.now.Add(7 * 24 * time.Hour / time.Duration(n))
	}
}

// tightened returns the newest version of each row of the signal, and how often the tallies count it.
func tightened(out *analyzer.Output) (rows []string, counted uint64) {
	_, findings, _ := latest(out)
	for _, f := range findings {
		if f.Rule == signals.ProviderTightened {
			rows = append(rows, fmt.Sprintf("%s %s: %s\n%s", f.Confidence, f.Detail, f.Summary, f.Evidence))
		}
	}
	return rows, signalCount(out, signals.ProviderTightened)
}

func (y *years) check(t *testing.T, want ...string) *analyzer.Output {
	t.Helper()
	y.advance(10 * time.Second)
	out := run(t, analyzer.Default(), y.steps)
	rows, counted := tightened(out)
	must.Agree(t, cmp.Diff(want, rows))
	must.Equal(t, counted > 0, len(want) > 0, "%d counted", counted)
	return out
}

// A provider rejects a violation that it accepted for a week: within a minute the signal names the host, model and rule.
func TestProviderTightened(t *testing.T) {
	y := newYears()
	y.week(168, "builder")
	flip := y.now
	y.url = "https://other.example/v1/chat/completions"
	y.send("builder", "1.4.0", "", orphan...) // another host goes on
	y.url = "https://api.deepseek.com/chat/completions"
	for range 3 {
		y.send("builder", "1.4.0", orphanText, orphan...)
		y.now = y.now.Add(10 * time.Second)
	}
	out := y.check(t, `medium orphan_tool_reply after_plain_assistant: api.deepseek.com rejects deepseek-chat with orphan_tool_reply after_plain_assistant, which it accepted 168 times until 2026-11-28 07:05:36 UTC
accepted 168 times from 2026-11-21 08:00:02 UTC to 2026-11-28 07:05:36 UTC, by builder 1.4.0 (168 times, rejected since 2026-11-28 08:05:40 UTC); rejected since 2026-11-28 08:05:40 UTC, 2 times in 2 conversations, and not accepted since`)
	for _, f := range out.Findings {
		if f.Rule != signals.ProviderTightened {
			continue
		}
		if late := f.FirstSeen.Sub(flip); late > time.Minute {
			t.Errorf("after %v", late)
		}
		if f.Model != "deepseek-chat" || f.Status != 400 || f.Conversation != "" || f.Message != -1 || f.Fix == "" {
			t.Errorf("row %+v", f)
		}
	}
	// The cause of the exchange is unchanged.
	e := out.Exchanges[len(out.Exchanges)-1]
	must.Equal(t, e.Cause, "orphan_tool_reply", "cause")
}

// Rejections of two services within a day raise the confidence of the same row.
func TestProviderTightenedForTwo(t *testing.T) {
	y := newYears()
	y.week(60, "builder", "coder", "writer")
	for _, service := range []string{"builder", "builder", "builder", "coder", "builder"} {
		y.send(service, "1.4.0", orphanText, orphan...)
	}
	out := y.check(t, `high orphan_tool_reply after_plain_assistant: api.deepseek.com rejects deepseek-chat with orphan_tool_reply after_plain_assistant, which it accepted 60 times until 2026-11-28 05:14:00 UTC
accepted 60 times from 2026-11-21 08:00:02 UTC to 2026-11-28 05:14:00 UTC, by builder 1.4.0 (20 times, rejected since 2026-11-28 08:02:02 UTC), coder 1.4.0 (20 times, rejected since 2026-11-28 08:02:08 UTC), writer 1.4.0 (20 times); rejected since 2026-11-28 08:02:02 UTC, 4 times in 4 conversations, and not accepted since`)
	_, counted := tightened(out)
	must.Equal(t, counted, 1, "times counted")
}

// Many rejections give few versions of one row.
func TestProviderTightenedIsUpdated(t *testing.T) {
	y := newYears()
	y.week(100, "builder")
	for range 1000 {
		y.send("builder", "1.4.0", orphanText, orphan...)
	}
	out := run(t, analyzer.Default(), y.steps)
	n := 0
	for _, f := range out.Findings {
		if f.Rule == signals.ProviderTightened {
			n++
		}
	}
	if rows, _ := tightened(out); len(rows) != 1 || n < 2 || n > 11 {
		t.Errorf("%d rows in %d versions", len(rows), n)
	}
}

// Cases that resemble a tightened provider.
func TestNotTightened(t *testing.T) {
	f := func(name string, fill func(y *years)) {
		t.Helper()
		y := newYears()
		fill(y)
		y.advance(10 * time.Second)
		if rows, counted := tightened(run(t, analyzer.Default(), y.steps)); len(rows) > 0 || counted > 0 {
			t.Errorf("%s: %s", name, strings.Join(rows, "\n"))
		}
	}
	reject := func(y *years, n int, version string) {
		for range n {
			y.send("builder", version, orphanText, orphan...)
		}
	}
	f("a deploy brings the violation", func(y *years) {
		for range 168 {
			y.send("builder", "1.4.0", "", hello...)
			y.now = y.now.Add(time.Hour)
		}
		reject(y, 50, "1.5.0")
	})
	f("a deploy brings another form of it", func(y *years) {
		y.week(168, "builder")
		reject(y, 50, "1.5.0")
	})
	f("another service brings another form of it", func(y *years) {
		y.week(168, "coder")
		reject(y, 50, "1.4.0")
	})
	f("another model rejects", func(y *years) {
		y.week(168, "builder")
		for range 50 {
			y.talks++
			y.labels.Conversation = fmt.Sprintf("talk %d", y.talks)
			id := y.exchange()
			y.request(id, orphan...).Body = body(msg{"model": "deepseek-reasoner", "messages": orphan})
			y.response(id, 400, fault(orphanText))
		}
	})
	f("another host rejects", func(y *years) {
		y.week(168, "builder")
		y.url = "https://other.example/v1/chat/completions"
		reject(y, 50, "1.4.0")
	})
	f("another cause", func(y *years) {
		y.week(168, "builder")
		for _, text := range []string{"Rate limit reached", "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens", "Invalid request", missingText} {
			for range 10 {
				y.send("builder", "1.4.0", text, orphan...)
			}
		}
	})
	f("both all the time", func(y *years) {
		for i := range 2000 {
			text := ""
			if hash := uint32(i) * 2654435761; hash>>31 == 1 {
				text = orphanText
			}
			y.send("builder", "1.4.0", text, orphan...)
		}
	})
	f("accepted once", func(y *years) {
		y.send("builder", "1.4.0", "", orphan...)
		reject(y, 50, "1.4.0")
	})
	f("accepted long ago", func(y *years) {
		y.week(168, "builder")
		y.now = y.now.Add(30 * 24 * time.Hour)
		reject(y, 50, "1.4.0")
	})
	f("one conversation is stuck at another server", func(y *years) {
		for range 20 {
			y.send("builder", "1.4.0", "", orphan...)
		}
		for range 20 {
			y.resend("stuck", "builder", "1.4.0", orphanText, orphan...)
		}
	})
	f("retries of an SDK", func(y *years) {
		y.week(168, "builder")
		for range 20 {
			id := y.send("builder", "1.4.0", orphanText, orphan...)
			for i := range y.steps {
				if ev := y.steps[i].ev; ev != nil && ev.Exchange == id {
					ev.Retry = 1
				}
			}
		}
	})
	f("imported", func(y *years) {
		y.week(168, "builder")
		reject(y, 20, "1.4.0")
		for i := range y.steps {
			y.steps[i].ev.Origin = "import"
		}
	})
}

// Low confidence: without versions, which rule out a deploy; with one conversation; after an acceptance.
func TestTightenedLowConfidence(t *testing.T) {
	f := func(name, want string, fill func(y *years)) {
		t.Helper()
		y := newYears()
		fill(y)
		rows, _ := tightened(run(t, analyzer.Default(), y.steps))
		if len(rows) != 1 || !strings.HasPrefix(rows[0], "low ") || !strings.Contains(rows[0], want) {
			t.Errorf("%s: %q", name, rows)
		}
	}
	f("no version", "in 2 conversations", func(y *years) {
		for range 168 {
			y.send("builder", "", "", orphan...)
			y.now = y.now.Add(time.Hour)
		}
		for range 3 {
			y.send("builder", "", orphanText, orphan...)
		}
	})
	f("one conversation", "3 times in one conversation", func(y *years) {
		y.week(168, "builder")
		for range 3 {
			y.resend("stuck", "builder", "1.4.0", orphanText, orphan...)
		}
	})
	f("accepted again", "; accepted again at 2026-11-28 08:", func(y *years) {
		y.week(168, "builder")
		for range 5 {
			y.send("builder", "1.4.0", orphanText, orphan...)
		}
		y.send("builder", "1.4.0", "", orphan...)
	})
}

// A request whose reasoning item has lost the id of its follower, as some agents send it each turn.
const unpaired = `{"model":"gpt-5.2","input":[{"role":"user","content":"Which port?"},{"type":"reasoning","id":"rs_1","summary":[]},` +
	`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Port 80."}]},{"role":"user","content":"And the host?"}]}`

// tolerated sends n accepted requests in each of these conversations.
func tolerated(y *years, n int, talks ...string) {
	for i := range n * len(talks) {
		y.answerTo(talks[i%len(talks)], 200, `{"object":"response","id":"resp_1","status":"completed","output":[]}`)
	}
}

func (y *years) answerTo(talk string, status int, answer string) {
	y.url = "https://api.openai.com/v1/responses"
	y.labels.Service, y.labels.ServiceVersion, y.labels.Conversation = "builder", "1.4.0", talk
	id := y.exchange()
	y.request(id).Body = []byte(unpaired)
	y.response(id, status, []byte(answer))
}

const unpairedText = `{"error":{"message":"Item 'rs_1' of type 'reasoning' was provided without its required following item.","type":"invalid_request_error"}}`

// predictions returns the predicted severity of the finding in each of the conversations, and which have the signal.
func predictions(out *analyzer.Output) map[string]string {
	_, findings, _ := latest(out)
	got := make(map[string]string)
	for _, f := range findings {
		switch f.Rule {
		case "reasoning_item_unpaired":
			got[f.Conversation] = string(f.Predicted) + got[f.Conversation]
		case signals.LatentViolation:
			got[f.Conversation] += " latent"
		}
	}
	return got
}

func TestTolerated(t *testing.T) {
	f := func(name string, fill func(y *years), want map[string]string) *analyzer.Output {
		t.Helper()
		y := newYears()
		fill(y)
		y.advance(10 * time.Second)
		out := run(t, analyzer.Default(), y.steps)
		must.Agree(t, cmp.Diff(want, predictions(out)), name)
		return out
	}
	const no = "reject latent"
	out := f("20 in 3 conversations", func(y *years) {
		tolerated(y, 7, "a", "b", "c")
		tolerated(y, 1, "d")
	}, map[string]string{"a": no, "b": no, "c": no, "d": "lenient"})
	for _, row := range out.Findings {
		if row.Conversation == "d" && !strings.HasSuffix(row.Summary, "; api.openai.com accepted this at least 20 times from gpt-5.2") {
			t.Errorf("summary %q", row.Summary)
		}
	}
	for _, e := range out.Exchanges {
		if e.Conversation == "d" && e.Rejects != 0 {
			t.Errorf("%d rejects", e.Rejects)
		}
	}
	f("two conversations prove nothing", func(y *years) {
		tolerated(y, 20, "a", "b")
		tolerated(y, 1, "d")
	}, map[string]string{"a": no, "b": no, "d": no})
	f("too few", func(y *years) {
		tolerated(y, 6, "a", "b", "c")
		tolerated(y, 1, "d")
	}, map[string]string{"a": no, "b": no, "c": no, "d": no})
	f("a refusal ends it at once", func(y *years) {
		tolerated(y, 7, "a", "b", "c")
		y.answerTo("d", 400, unpairedText)
		tolerated(y, 1, "e")
	}, map[string]string{"a": no, "b": no, "c": no, "d": "reject", "e": no})
	f("also one without a reason", func(y *years) {
		tolerated(y, 7, "a", "b", "c")
		y.answerTo("d", 400, `{"error":{"message":"Invalid request."}}`)
		tolerated(y, 1, "e")
	}, map[string]string{"a": no, "b": no, "c": no, "d": "reject", "e": no})
	f("a failure for another reason does not", func(y *years) {
		tolerated(y, 7, "a", "b", "c")
		y.answerTo("d", 429, `{"error":{"message":"Rate limit reached for gpt-5.2","type":"requests","code":"rate_limit_exceeded"}}`)
		tolerated(y, 1, "e")
	}, map[string]string{"a": no, "b": no, "c": no, "d": "lenient", "e": "lenient"})
	f("imports prove nothing", func(y *years) {
		tolerated(y, 7, "a", "b", "c")
		for i := range y.steps {
			y.steps[i].ev.Origin = "import"
		}
		tolerated(y, 1, "d")
	}, map[string]string{"a": no, "b": no, "c": no, "d": no})
}
