package lint

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// keep collects results.
type keep struct{ results []Result }

func (k *keep) Print(r *Result) error { k.results = append(k.results, *r); return nil }
func (k *keep) Close(Counts) error    { return nil }

// linted lints text and renders each result as "line dialect/variant rule@message …" or "line error".
func linted(t *testing.T, text string) []string {
	t.Helper()
	k := &keep{}
	l := New(k)
	l.Minimum = check.Reject
	must.Do(t, l.run(t.Context(), []string{"-"}, strings.NewReader(text)))
	var out []string
	for _, r := range k.results {
		s := fmt.Sprintf("%d", r.line)
		if r.Error != "" {
			out = append(out, s+" error")
			continue
		}
		if r.NotJudged != "" {
			s += " (" + r.NotJudged + ")"
		}
		s += " " + string(r.Dialect) + "/" + string(r.Variant)
		for _, f := range r.Findings {
			s += fmt.Sprintf(" %s@%d", f.Rule, f.Message)
		}
		out = append(out, s)
	}
	return out
}

const (
	user   = `{"role":"user","content":"q"}`
	called = `{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	reply  = `{"role":"tool","tool_call_id":"call_1","content":"ok"}`
)

func TestRecords(t *testing.T) {
	f := func(name, text string, want ...string) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, linted(t, text)), name)
	}
	orphan := "[" + user + "," + reply + "]"
	f("array", orphan, "1 openai_chat/openai orphan_tool_reply@1")
	f("request body", `{"model":"gpt-5","messages":`+orphan+`}`, "1 openai_chat/openai orphan_tool_reply@1")
	f("model's maker", `{"model":"deepseek-chat","messages":`+orphan+`}`, "1 openai_chat/deepseek orphan_tool_reply@1")
	f("exchange", `{"request":{"messages":`+orphan+`},"status":400,"url":"https://api.deepseek.com/chat/completions"}`, "1 openai_chat/deepseek orphan_tool_reply@1")
	f("request as text", `{"request":"{\"messages\":[]}","url":"https://api.openai.com/v1/chat/completions"}`, "1 (the request has no messages) openai_chat/openai")
	f("exchange of no dialect", `{"request":{"input":"x"},"url":"https://api.openai.com/v1/embeddings"}`, "1 (no rules for this API) other/other")
	f("conversation", `{"format":"openai.chat","messages":`+orphan+`}`, "1 openai_chat/openai orphan_tool_reply@1")
	f("conversation with its answer", `{"format":"openai.chat","messages":[`+user+`,`+called+`],"n_request":1}`, "1 openai_chat/openai")
	f("conversation without", `{"format":"openai.chat","messages":[`+user+`,`+called+`,`+user+`]}`, "1 openai_chat/openai missing_tool_reply@1")
	// The named format overrides the form of the body. Ollama's own API has objects as arguments and no ids.
	native := `[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","tool_name":"f","content":"ok"}]`
	f("Ollama's own API", `{"format":"ollama.chat","model":"qwen3","messages":`+native+`}`, "1 openai_chat/ollama")
	f("Ollama's own API, asked", `{"api":"ollama.chat","request":{"messages":`+native+`}}`, "1 openai_chat/ollama")
	f("Cohere", `{"format":"cohere.chat","messages":[`+user+`,`+called+`,`+reply+`]}`, "1 cohere/cohere")
	f("Bedrock", `{"format":"bedrock.converse","messages":[]}`, "1 (the request has no messages) bedrock/bedrock")
	f("array of records", `[{"id":"a","messages":`+orphan+`},{"messages":[`+user+`]}]`, "1 openai_chat/openai orphan_tool_reply@1", "1 openai_chat/openai")
	f("nothing", "", "0 (no records) /")
	f("white space", "\n \n", "0 (no records) /")
	f("no history", `{"mess":[]}`+"\n"+`7`+"\n"+`{"format":"openai.chat"}`, "1 error", "2 error", "3 error")
	f("request that lacks its history", `{"request":{"model":"gpt-5"},"status":400,"url":"https://api.openai.com/v1/chat/completions"}`, "1 (the request has no messages) openai_chat/openai")
	f("messages of another type", `{"messages":7}`, "1 (the request has no messages) openai_chat/openai")
	f("an empty array", `[]`, "1 (the request has no messages) openai_chat/openai")
	f("unknown format", `{"format":"klingon","messages":`+orphan+`}`, `1 (unknown format "klingon"; --dialect sets the format) /`)
	f("Ollama's parameter format", `{"model":"qwen3","format":"json","messages":`+orphan+`}`, "1 openai_chat/qwen orphan_tool_reply@1")
	f("no body", `{"request":null,"url":"https://api.openai.com/v1/chat/completions"}`, "1 (the record has no request body) /")
	f("text as input", `{"request":{"input":"q"},"url":"https://api.openai.com/v1/responses"}`, "1 openai_responses/openai")
	many := strings.Repeat(user+",", 1<<16)
	f("too many messages", `{"messages":[`+many+user+`]}`, "1 (too many messages, calls, replies or tools: 1 of them were not judged) openai_chat/openai")
}

func TestFiles(t *testing.T) {
	f := func(name, text string, want ...string) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, linted(t, text)), name)
	}
	one := `{"messages":[` + user + `]}`
	ok := "openai_chat/openai"
	f("lines", one+"\n\n"+one, "1 "+ok, "3 "+ok)
	f("no line end", one, "1 "+ok)
	f("an empty line, then a document", "\n\n{\n\"messages\": [\n"+user+"\n]\n}\n", "3 "+ok)
	f("an array of records", "[\n"+one+",\n\n"+one+"]", "2 "+ok, "4 "+ok)
	f("a broken line", one+"\n{\"messages\":\n"+one, "1 "+ok, "2 error", "3 "+ok)
	f("a broken first line", "{\"messages\":[\n"+one+"\n"+one, "1 error", "2 "+ok, "3 "+ok)
	f("an empty first line", "\n"+one, "2 "+ok)
	f("a byte order mark", "\ufeff"+one, "1 "+ok)
	f("one document over many lines", "{\n\"messages\": [\n"+user+"\n]\n}\n", "1 "+ok)
	f("an array over many lines", "[\n"+user+"\n]\n", "1 "+ok)
	f("several documents", "{\n\"messages\": ["+user+"]}\n{\n\"messages\":\n["+user+"]}", "1 "+ok, "3 "+ok)
	f("a broken document", "{\n\"messages\": [\n"+user+",\n]\n}\n", "1 error")
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write([]byte(one + "\n" + one)) // never fails
	_ = w.Close()
	f("gzip", z.String(), "1 "+ok, "2 "+ok)
	f("gzip cut short", z.String()[:z.Len()-9], "1 "+ok, "2 "+ok, "2 error")
	f("no gzip", "\x1f\x8bxx", "1 error")
}

// A recorded answer is known to the next record.
func TestChain(t *testing.T) {
	asked := `{"url":"https://api.openai.com/v1/responses","status":200,"request":{"model":"gpt-5","input":"q"},"response":{"id":"resp_1","object":"response","status":"completed",` +
		`"output":[{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{}"}]}}`
	next := func(id string) string {
		return `{"url":"https://api.openai.com/v1/responses","status":0,"request":{"model":"gpt-5","previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"` + id + `","output":"ok"}]}}`
	}
	want := []string{"1 openai_responses/openai", "2 openai_responses/openai"}
	must.Agree(t, cmp.Diff(want, linted(t, asked+"\n"+next("call_1"))), "answered")
	if got := linted(t, asked+"\n"+next("call_2")); len(got) != 2 || !strings.Contains(got[1], "previous_response_unresolved") || !strings.Contains(got[1], "@0") {
		t.Errorf("another call answered: %q", got)
	}
	// Nothing is known of an answer without a record.
	must.Agree(t, cmp.Diff([]string{"1 openai_responses/openai"}, linted(t, next("call_2"))), "unseen")
}

// A SARIF log has the members that code scanning requires, also without results.
func TestSARIF(t *testing.T) {
	log := func(text string) (n, line int, level, uri string) {
		t.Helper()
		var b bytes.Buffer
		l := New(&SARIF{W: &b, Version: "v1"})
		must.Do(t, l.run(t.Context(), []string{"-"}, strings.NewReader(text)))
		must.Do(t, l.Printer.Close(l.Counts))
		var doc struct {
			Version string
			Runs    []struct {
				Tool struct {
					Driver struct{ Rules []struct{ ID string } }
				}
				Results []struct {
					RuleID    string
					RuleIndex int
					Level     string
					Locations []struct {
						PhysicalLocation struct {
							ArtifactLocation struct{ URI string }
							Region           struct{ StartLine int }
						}
					}
				}
			}
		}
		must.Do(t, json.Unmarshal(b.Bytes(), &doc))
		run := doc.Runs[0]
		if doc.Version != "2.1.0" || run.Results == nil {
			t.Errorf("no log: %s", b.Bytes())
		}
		for _, r := range run.Results {
			line = r.Locations[0].PhysicalLocation.Region.StartLine
			must.Equal(t, run.Tool.Driver.Rules[r.RuleIndex].ID, r.RuleID, "%s has the index of", r.RuleID)
			level, uri = r.Level, r.Locations[0].PhysicalLocation.ArtifactLocation.URI
		}
		return len(run.Results), line, level, uri
	}
	n, _, _, _ := log(`[` + user + `]`)
	must.Equal(t, n, 0, "results for a valid history")
	if n, line, level, uri := log("[" + user + ",\n" + reply + "]"); n != 1 || line != 2 || level != "error" || uri != "-" {
		t.Errorf("%d results, line %d, level %s, file %s", n, line, level, uri)
	}
	for name, want := range map[string]string{"runs/a b%.json": "runs/a%20b%25.json", "a:b": "./a:b", "/tmp/a": "file:///tmp/a"} {
		must.Equal(t, fileURI(name), want, "%s", name)
	}
}

// Every recorded conversation and exchange is readable, and accepted exchanges have no root causes.
func TestRecordedData(t *testing.T) {
	names := []string{recordedtest.Exchanges, recordedtest.Conversations}
	if testing.Short() {
		names = names[:1] // conversations are slow under the race detector
	}
	for _, name := range names {
		k := &keep{}
		l := New(k)
		must.Do(t, l.run(t.Context(), []string{recordedtest.Path(t, name)}, nil))
		roots := map[string]int{}
		for _, r := range k.results {
			must.Equal(t, r.Error, "", "%s (%s)", r.Source, r.ID)
			for _, f := range r.Findings {
				roots[f.RootCause]++
				if f.explained {
					t.Errorf("%s (%s): %s of %s: %s", r.Source, r.ID, f.RootCause, f.Rule, f.Evidence)
				}
			}
		}
		t.Logf("%s: %+v; root causes: %v; %d conversations in %d MiB", name, l.Counts, roots, l.exchanges.judge.Sessions.Len(), l.exchanges.judge.Sessions.Bytes()>>20)
	}
}

// A violation in a request that the provider accepted is no error.
func TestAccepted(t *testing.T) {
	f := func(name, record, dialect string, rejected int, severity check.Severity) {
		t.Helper()
		k := &keep{}
		l := New(k)
		l.Forced, _ = ParseTarget(dialect)
		must.Do(t, l.run(t.Context(), []string{"-"}, strings.NewReader(record)))
		if got := k.results[0].Findings[0]; l.Counts.Rejected != rejected || got.Predicted != check.Reject || got.Severity != severity {
			t.Errorf("%s: %d rejected, finding %+v", name, l.Counts.Rejected, got)
		}
	}
	exchange := func(status int, response string) string {
		return fmt.Sprintf(`{"request":{"messages":[%s,%s]},"url":"https://api.deepseek.com/chat/completions","status":%d,"response":%s}`, user, reply, status, response)
	}
	answer := `{"choices":[{"message":{"role":"assistant","content":"a"}}]}`
	f("accepted", exchange(200, answer), "auto", 0, check.Lenient)
	f("accepted, answer not recorded", exchange(200, "null"), "auto", 0, check.Lenient)
	f("accepted, answer removed", exchange(200, `"(removed)"`), "auto", 0, check.Lenient)
	f("accepted by the stated provider", exchange(200, answer), "openai_chat/deepseek", 0, check.Lenient)
	f("accepted by another provider", exchange(200, answer), "openai_chat/openai", 1, check.Reject)
	f("accepted conversation", `{"format":"openai.chat","status":200,"messages":[`+user+`,`+reply+`]}`, "auto", 0, check.Lenient)
	f("an error with status 200", exchange(200, `{"error":{"message":"no tool_calls"}}`), "auto", 1, check.Reject)
	f("refused", exchange(400, "null"), "auto", 1, check.Reject)
	f("unknown", exchange(0, "null"), "auto", 1, check.Reject)
}
