package lint

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const (
	deepseek = "https://api.deepseek.com/chat/completions"
	orphaned = `{"error":{"message":"Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"}}`

	system  = `{"role":"system","content":"You are a planner."}`
	task    = `{"role":"user","content":"read config.py"}`
	empty   = `{"role":"assistant","content":""}`
	working = `{"role":"assistant","content":"Working.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"extract","arguments":"{}"}},` +
		`{"id":"call_2","type":"function","function":{"name":"extract","arguments":"{}"}}]}`
	reply2 = `{"role":"tool","tool_call_id":"call_2","content":"ok"}`
	next   = `{"role":"user","content":"are you done?"}`
)

// An exchange is one record of the tests.
type exchange struct {
	labels   string // further members of the record, each with a comma after it
	status   int
	request  string // messages
	response string // the answer's message, or an error body
}

func (x *exchange) body() string { return `{"model":"deepseek-chat","messages":[` + x.request + `]}` }

func (x *exchange) answer() string {
	if x.status >= 400 {
		return x.response
	}
	return `{"id":"r1","choices":[{"index":0,"message":` + x.response + `,"finish_reason":"stop"}]}`
}

func (x *exchange) line() string {
	return fmt.Sprintf(`{%s"url":%q,"status":%d,"request":%s,"response":%s}`, x.labels, deepseek, x.status, x.body(), x.answer())
}

func lines(all []exchange) string {
	var b strings.Builder
	for i := range all {
		b.WriteString(all[i].line() + "\n")
	}
	return b.String()
}

// lintText lints text as the file "-".
func lintText(t *testing.T, text string) []Result {
	t.Helper()
	k := &keep{}
	must.Do(t, New(k).run(t.Context(), []string{"-"}, strings.NewReader(text)))
	return k.results
}

// rejections returns the findings that predict reject, one per line.
func rejections(results []Result) []string {
	var out []string
	for _, r := range results {
		for _, f := range r.Findings {
			if f.Predicted != check.Reject {
				continue
			}
			s := fmt.Sprintf("%s@%d %s %s %s", r.Source, f.Message, f.Rule, f.RootCause, f.Confidence)
			if f.First != "" {
				s += " first " + f.First
			}
			out = append(out, strings.Join(strings.Fields(s), " "))
		}
	}
	return out
}

// Incidents 0 and 2, with and without a conversation id.
func TestRootCauses(t *testing.T) {
	f := func(name, text string, want ...string) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, rejections(lintText(t, text))), name)
	}
	id := `"conversation":"c1",`
	asked := exchange{id, 200, system + "," + task, called}
	broken := exchange{id, 400, system + "," + task + "," + empty + "," + reply, orphaned}
	longer := exchange{id, 400, broken.request + "," + next, orphaned}
	dropped := "-:2@3 orphan_tool_reply tool_calls_dropped_on_save high"
	f("calls dropped", lines([]exchange{asked, broken}), dropped)
	f("sent again", lines([]exchange{asked, broken, longer, broken}),
		dropped, "-:3@3 orphan_tool_reply tool_calls_dropped_on_save high first -:2", "-:4@3 orphan_tool_reply tool_calls_dropped_on_save high first -:2")
	cut := exchange{id, 400, system + "," + reply2, orphaned}
	f("history cut", lines([]exchange{{id, 200, system + "," + task, working}, cut}),
		"-:2@1 orphan_tool_reply history_truncated_mid_pair high")
	f("in the wrong order", lines([]exchange{broken, asked}), "-:1@3 orphan_tool_reply unknown_no_history low")
	f("of another conversation", lines([]exchange{asked, {`"conversation":"c2",`, 400, broken.request, orphaned}}), dropped) // it contains the answer of c1: resumed
	f("of another service", lines([]exchange{asked, {id + `"service":"s",`, 400, broken.request, orphaned}}), "-:2@3 orphan_tool_reply unknown_no_history low")
	f("an id that is a number", lines([]exchange{{`"conversation_id":7,`, 200, asked.request, called}, {`"conversation_id":7,`, 400, broken.request, orphaned}}), dropped)
	f("no answer to build on", lines([]exchange{{id, 500, asked.request, orphaned}, broken}), "-:2@3 orphan_tool_reply")
	f("a request alone", broken.body(), "-:1@3 orphan_tool_reply")
	f("a conversation alone", `{"format":"openai.chat","messages":[`+broken.request+`]}`, "-:1@3 orphan_tool_reply")
	f("requests alone", broken.body()+"\n"+broken.body(), "-:1@3 orphan_tool_reply", "-:2@3 orphan_tool_reply")

	anonymous := []exchange{{"", 200, asked.request, called}, {"", 400, broken.request, orphaned}}
	f("without an id", lines(anonymous), dropped)
	f("not of any call_1", lines([]exchange{anonymous[0], anonymous[0], anonymous[1]}), "-:3@3 orphan_tool_reply unknown_no_history low")
	// Records on one line have distinct names.
	f("an array on one line", "["+anonymous[0].line()+","+anonymous[1].line()+","+anonymous[1].line()+"]",
		"-:1@3 orphan_tool_reply tool_calls_dropped_on_save high", "-:1@3 orphan_tool_reply tool_calls_dropped_on_save high first -:1[1]")

	// An answer may be a stream, as text or base64.
	stream := "data: {\"id\":\"r1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\"," +
		"\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"
	quoted := must.Get(json.Marshal(stream))(t)
	f("a stream", fmt.Sprintf(`{"url":%q,"status":200,"request":%s,"response":%s}`, deepseek, asked.body(), quoted)+"\n"+anonymous[1].line(), dropped)
	f("base64", fmt.Sprintf(`{"url":%q,"status":200,"request":%q,"request_encoding":"base64","response":%q,"response_encoding":"base64"}`,
		deepseek, base64.StdEncoding.EncodeToString([]byte(asked.body())), base64.StdEncoding.EncodeToString([]byte(stream)))+"\n"+anonymous[1].line(), dropped)
}

// Lint and the stream analyzer report the same findings of the same exchanges: id, first exchange and root cause.
func TestSameFindingsAsStream(t *testing.T) {
	histories := map[string][]exchange{
		"dropped": {
			{"", 200, system + "," + task, called},
			{"", 400, system + "," + task + "," + empty + "," + reply, orphaned},
			{"", 400, system + "," + task + "," + empty + "," + reply + "," + next, orphaned},
		},
		"cut": {{"", 200, system + "," + task, working}, {"", 400, system + "," + reply2, orphaned}},
		"skipped, then repaired twice": {
			{"", 200, task, working},
			{"", 400, task + "," + working + "," + reply + "," + next, orphaned},
			{"", 400, task + "," + working + "," + reply + "," + reply + "," + reply2, orphaned},
		},
		"a fork": {
			{"", 200, task, called}, {"", 200, task + "," + called + "," + reply, empty}, {"", 200, next + "," + reply, empty}, {"", 400, task + "," + empty + "," + reply, orphaned},
		},
		"an id beyond the bound": {
			{"", 200, task, strings.ReplaceAll(called, "call_1", strings.Repeat("x", 9000))},
			{"", 400, task + "," + empty + "," + strings.ReplaceAll(reply, "call_1", strings.Repeat("x", 9000)), orphaned},
		},
		"an answer in an error": {
			{"", 400, task, called}, {"", 400, task + "," + empty + "," + reply, orphaned},
		},
		"unknown":                {{"", 400, task + "," + empty + "," + reply, orphaned}},
		"accepted, then no more": {{"", 200, task, called}, {"", 200, task + "," + empty + "," + reply, empty}, {"", 400, task + "," + empty + "," + reply + "," + next, orphaned}},
	}
	for name, history := range histories {
		for _, label := range [][2]string{{"s", ""}, {"s", "c1"}, {"", "c1"}} {
			service, conversation := label[0], label[1]
			a := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
			var out analyzer.Output
			now, seq := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), uint64(0)
			send := func(ev event.Event) {
				seq++
				now = now.Add(time.Second)
				ev.Time, ev.Seq, ev.Origin, ev.Capture, ev.Part, ev.Parts, ev.BodyBytes = now, seq, event.OriginHook, event.CaptureFull, 1, 1, len(ev.Body)
				ev.Instance, ev.Labels = "i1", event.Labels{Service: service, Conversation: conversation}
				a.Process(&ev, analyzer.Position{Seq: seq, Time: now}, true, &out)
			}
			for i := range history {
				x := &history[i]
				x.labels = fmt.Sprintf(`"service":%q,"instance":"i1","conversation":%q,`, service, conversation)
				exchange := fmt.Sprintf("-:%d", i+1)
				send(event.Event{Kind: event.Request, Exchange: exchange, URL: deepseek, Method: "POST", Body: []byte(x.body())})
				send(event.Event{Kind: event.Response, Exchange: exchange, Status: x.status, ContentType: "application/json", Body: []byte(x.answer())})
			}
			type row struct{ ID, First, Rule, RootCause, Confidence, Evidence, Fix, ToolName string }
			want, got := map[string]row{}, map[string]row{}
			for _, f := range out.Findings {
				if f.Severity == check.Signal {
					continue
				}
				want[f.ID] = row{f.ID, f.Exchange, f.Rule, f.RootCause, f.Confidence, f.Evidence, f.Fix, f.ToolName}
			}
			for _, r := range lintText(t, lines(history)) {
				for _, f := range r.Findings {
					if f.First == "" {
						f.First = r.Source
					}
					got[f.ID] = row{f.ID, f.First, f.Rule, f.RootCause, f.Confidence, f.Evidence, f.Fix, f.ToolName}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
				t.Errorf("%s, service %q, conversation %q: %d findings (-stream +lint):\n%s", name, service, conversation, len(want), diff)
			}
		}
	}
}

// A finding is printed in full once, and again if its severity rises.
func TestRepeated(t *testing.T) {
	asked := exchange{"", 200, task, called}
	broken := exchange{"", 200, task + "," + empty + "," + reply, empty}
	text := lines([]exchange{asked, broken, {"", 400, broken.request + "," + next, orphaned}, {"", 400, broken.request, orphaned}})
	run := func(p Printer) {
		t.Helper()
		l := New(p)
		l.Minimum = check.Reject
		must.Do(t, l.run(t.Context(), []string{"-"}, strings.NewReader(text)))
		must.Do(t, p.Close(l.Counts))
	}
	var b bytes.Buffer
	run(Text{W: &b, Style: &terminal.Style{Unbroken: true}})
	fix := "    fix: Save the whole assistant message, tool_calls included, before its tool messages; do not rebuild it from role and content.\n\n"
	want := "-:2  openai_chat/deepseek\n  orphan_tool_reply (accepted, but would usually be rejected): " + lintText(t, text)[1].Findings[0].Summary + `
        0 user       "read config.py"
        1 assistant  ""
    >   2 tool       answers call_1  "ok"
    root cause: tool_calls_dropped_on_save (high): answer of LLM call -:1 made call_1 (f); message 1 of the next request is its copy without tool_calls, and message 2 answers call_1
` + fix
	if got, _, _ := strings.Cut(b.String(), "-:3 "); got != want {
		t.Errorf("first (-want +got):\n%s", cmp.Diff(want, got))
	}
	must.Equal(t, strings.Count(b.String(), fix), 2, "findings in full:\n%s", b.String())
	want = "-:4  openai_chat/deepseek\n  orphan_tool_reply (rejected with 400): message 2, first seen in -:2\n\n"
	must.Contain(t, b.String(), want)

	b.Reset()
	run(GitHub{W: &b})
	if n := strings.Count(b.String(), "\n"); n != 2 || !strings.Contains(b.String(), "%0Aroot cause: tool_calls_dropped_on_save (high): answer of LLM call -:1 made call_1") {
		t.Errorf("%d annotations, want 2:\n%s", n, b.String())
	}
	b.Reset()
	run(&SARIF{W: &b})
	var log struct {
		Runs []struct {
			Results []struct {
				PartialFingerprints map[string]string
				Properties          struct {
					RootCause string `json:"root_cause"`
				}
			}
		}
	}
	must.Do(t, json.Unmarshal(b.Bytes(), &log))
	results := log.Runs[0].Results
	if len(results) != 2 || len(results[0].PartialFingerprints) != 1 || !cmp.Equal(results[0], results[1]) || results[0].Properties.RootCause != session.CallsDropped {
		t.Errorf("results %+v", results)
	}
}

// A reply to a call that a truncated answer lacks is no violation.
func TestChainCut(t *testing.T) {
	const url = `{"url":"https://api.openai.com/v1/responses","status":200,`
	cut := `event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"in_progress\",\"output\":[]}}\n\n`
	text := url + `"request":{"model":"gpt-5","stream":true,"input":"q"},"response":"` + cut + `"}` + "\n" +
		url + `"request":{"model":"gpt-5","previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"call_1","output":"ok"}]}}`
	if got := rejections(lintText(t, text)); got != nil {
		t.Errorf("found %q", got)
	}
}
