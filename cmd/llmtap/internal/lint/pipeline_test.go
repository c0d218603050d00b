package lint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// Results are in the order of the records, over batches, files and records of every size.
func TestOrder(t *testing.T) {
	var b strings.Builder
	want := 0
	for ; want < 3000; want++ {
		text := "q"
		if want%500 == 7 {
			text = strings.Repeat("q", 2<<20)
		}
		fmt.Fprintf(&b, `{"id":"%d","messages":[{"role":"user","content":%q}]}`+"\n", want, text)
	}
	name := filetest.Temp(t, "a.jsonl", b.String())
	k := &keep{}
	l := New(k)
	must.Do(t, l.Files(t.Context(), []string{name, "nosuch", name}, nil))
	if len(k.results) != 2*want+1 || l.Counts.Checked != 2*want || l.Counts.Unreadable != 1 {
		t.Fatalf("%d results, %+v", len(k.results), l.Counts)
	}
	for i, r := range k.results {
		if id := fmt.Sprint(i % (want + 1)); r.ID != id && i != want {
			t.Fatalf("result %d is of record %q, want %s", i, r.ID, id)
		}
	}
}

// A record in a pipe is judged before the next one arrives.
func TestPipe(t *testing.T) {
	in, out := io.Pipe()
	results := make(chan string)
	go func() {
		defer close(results)
		if err := New(sender(results)).run(t.Context(), []string{"-"}, in); err != nil {
			t.Error(err)
		}
	}()
	for i := range 3 {
		must.Get(fmt.Fprintf(out, `{"id":"%d","messages":[%s]}`+"\n", i, user))(t)
		select {
		case id := <-results:
			must.Equal(t, id, fmt.Sprint(i), "record")
		case <-time.After(time.Minute):
			t.Fatal("no result")
		}
	}
	_ = out.Close()
	if id, ok := <-results; ok {
		t.Errorf("a further result %q", id)
	}
}

type sender chan<- string

func (s sender) Print(r *Result) error { s <- r.ID; return nil }
func (sender) Close(Counts) error      { return nil }

// A write error ends the run, even if the input never ends.
func TestWriteError(t *testing.T) {
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	go func() { _, _ = fmt.Fprintf(out, `{"messages":[%s]}`+"\n", user) }()
	broken := errors.New("broken pipe")
	must.Is(t, New(failing{broken}).run(t.Context(), []string{"-"}, in), broken)
}

type failing struct{ err error }

func (f failing) Print(*Result) error { return f.err }
func (f failing) Close(Counts) error  { return f.err }

// A request beyond the limits of package facts is not fully judged, in each dialect.
func TestBounds(t *testing.T) {
	slowtest.SkipShort(t, "slow, and without concurrency for the race detector")
	const n = 70_000
	list := func(format string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, format, i)
		}
		return "[" + b.String() + "]"
	}
	for name, text := range map[string]string{
		"chat messages": `{"messages":` + list(`{"role":"user","content":"%d"}`) + `}`,
		"chat calls":    `{"messages":[` + user + `,{"role":"assistant","tool_calls":` + list(`{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}`) + `}]}`,
		"chat tools":    `{"messages":[` + user + `],"tools":` + list(`{"type":"function","function":{"name":"f%d"}}`) + `}`,
		"an exchange":   `{"url":"https://api.openai.com/v1/chat/completions","status":200,"request":{"messages":` + list(`{"role":"user","content":"%d"}`) + `}}`,
		"blocks":        `{"model":"claude-3","messages":[` + user + `,{"role":"assistant","content":` + list(`{"type":"tool_use","id":"c%d","name":"f","input":{}}`) + `}]}`,
		"Gemini":        `{"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":` + list(`{"functionCall":{"name":"f%d","args":{}}}`) + `}]}`,
		"items":         `{"model":"gpt-5","input":` + list(`{"type":"function_call","call_id":"c%d","name":"f","arguments":"{}"}`) + `}`,
	} {
		var b bytes.Buffer
		l := New(Text{W: &b, Style: &terminal.Style{Unbroken: true}})
		must.Do(t, l.Files(t.Context(), []string{"-"}, strings.NewReader(text)))
		if l.Counts.Unjudged != 1 || l.Counts.Checked != 0 || !strings.Contains(b.String(), "were not judged") {
			t.Errorf("%s: %+v\n%.300s", name, l.Counts, b.String())
		}
	}
}

// A message with many violations is described once.
func TestManyFindings(t *testing.T) {
	slowtest.SkipShort(t, "slow, and without concurrency for the race detector")
	var calls strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&calls, `,{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}`, i)
	}
	started := slowtest.Processor(t)
	l := New(Text{W: io.Discard, Style: &terminal.Style{Unbroken: true}})
	must.Do(t, l.Files(t.Context(), []string{"-"}, strings.NewReader(`{"messages":[`+user+`,{"role":"assistant","tool_calls":[`+calls.String()[1:]+`]},`+user+`]}`)))
	if took := slowtest.Processor(t) - started; l.Counts.Rejected != 1 || took > time.Minute { // minutes when it was described per violation
		t.Errorf("%+v in %v", l.Counts, took)
	}
}

// A provider that answered 400 did not accept the request, although it is not known to reject the defect.
func TestRefused(t *testing.T) {
	f := func(record string, want ...string) {
		t.Helper()
		var b bytes.Buffer
		l := New(Text{W: &b, Style: &terminal.Style{Unbroken: true}})
		must.Do(t, l.Files(t.Context(), []string{"-"}, strings.NewReader(record)))
		for _, w := range want {
			must.Contain(t, b.String(), w, record)
		}
		if strings.Contains(b.String(), "accepted here") == strings.Contains(record, "400") {
			t.Errorf("%s:\n%s", record, b.String())
		}
	}
	const unknown = `"url":"https://llm.example.com/v1/chat/completions","status":%d` // it may accept two user messages
	for _, record := range []string{
		`{` + unknown + `,"request":{"messages":[` + user + "," + user + `]}}`,
		`{` + unknown + `,"format":"openai.chat","messages":[` + user + "," + user + `]}`,
	} {
		f(fmt.Sprintf(record, 400), "rejected elsewhere; this request was answered with 400")
		f(fmt.Sprintf(record, 200), "accepted here, rejected elsewhere")
	}
	// A predicted rejection is one, too.
	f(`{"url":"https://api.openai.com/v1/chat/completions","status":400,"request":{"messages":[`+user+`,`+reply+`]}}`, "orphan_tool_reply (rejected with 400)")
	// The answer outranks what is known of a provider, and a refusal is never silent.
	refused := func(url, response, messages string, want ...string) {
		t.Helper()
		f(`{"url":"https://`+url+`","status":400,"response":`+response+`,"request":{"messages":[`+messages+`]}}`, want...)
	}
	refused("llm.example.com/v1/chat/completions", `"Bad request"`, user+","+user, "role_alternation_broken (rejected with 400)")
	refused("api.openai.com/v1/chat/completions", `{"error":{"message":"Invalid schema for function 'f': null is not of type \"array\"."}}`, user,
		"tool_schema_invalid (stated, answered with 400): ", "No rule finds it in the request.", "0 would be rejected, 1 refused for what no rule finds")
	refused("api.openai.com/v1/chat/completions", `"Bad request"`, user, "unexplained (answered with 400): ", "1 refused for what no rule finds")
}

// Calls in the answer that previous_response_id names are unknown.
func TestPreviousResponse(t *testing.T) {
	items := `[{"type":"function_call_output","call_id":"call_1","output":"ok"}]`
	for record, want := range map[string]int{
		items: 0,
		`{"format":"openai.responses","messages":` + items + `}`:                          0,
		`{"model":"gpt-5","input":` + items + `}`:                                         0,
		`{"url":"https://api.openai.com/v1/responses","request":{"input":` + items + `}}`: 0,
		`{"messages":[` + user + `,` + reply + `]}`:                                       1, // not the Responses API
	} {
		for _, id := range []string{"", "resp_1"} {
			k := &keep{}
			l := New(k)
			l.PreviousResponse, l.Minimum = id, check.Reject
			must.Do(t, l.Files(t.Context(), []string{"-"}, strings.NewReader(record)))
			if id == "" {
				want = 1
			} else if strings.Contains(record, "call_output") {
				want = 0
			}
			if len(k.results) != 1 || len(k.results[0].Findings) != want {
				t.Errorf("%s with %q: %+v, want %d findings", record, id, k.results, want)
			}
		}
	}
	// A record may only say that there was one.
	k := &keep{}
	record := `{"format":"openai.responses","previous_response_id":true,"messages":` + items + `}`
	must.Do(t, New(k).Files(t.Context(), []string{"-"}, strings.NewReader(record)))
	if len(k.results) != 1 || len(k.results[0].Findings) > 0 {
		t.Errorf("%s: %+v", record, k.results)
	}
}

// Inputs of every form are judged or named.
func TestForms(t *testing.T) {
	f := func(name, text string, want ...string) {
		t.Helper()
		k := &keep{}
		must.Do(t, New(k).Files(t.Context(), []string{"-"}, strings.NewReader(text)))
		var got []string
		for _, r := range k.results {
			if _, hint, ok := strings.Cut(r.Error, "looks like "); ok {
				r.Error = strings.TrimSuffix(hint, ")")
			}
			got = append(got, strings.TrimSpace(r.Source+" "+r.Error))
		}
		must.Agree(t, cmp.Diff(want, got), name)
	}
	entry := func(method, url, body string) string {
		return fmt.Sprintf(`{"request":{"method":%q,"url":%q,"postData":{"text":%q}},"response":{"status":200,"content":{"text":"{}"}}}`, method, url, body)
	}
	f("HAR", `{"log":{"entries":[`+entry("GET", "https://example.com", "")+`,`+
		entry("POST", "https://api.openai.com/v1/chat/completions", `{"messages":[`+user+`]}`)+`]}}`, "-:2")
	f("Python", "{'messages': [{'role': 'user'}]}\n", "-:1 a printed Python object; write it with json.dumps")
	f("SSE", "data: {}\n\n", "-:1 server-sent events; record them as the response of an exchange, with its request")
	f("binary", "\x00\x01\x02\x03\x04", "-:1 binary data")
	f("zip", "PK\x03\x04", "-:1 the input is a zip archive; unpack it first")
	long := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", recorded.MaxValue) + `"}]}`
	one := `{"messages":[` + user + `]}`
	f("a long line", one+"\n"+long+"\n"+one, "-:1", "-:2 longer than 64 MiB; write one record per line", "-:3")
	f("a long document", strings.Replace(long, "[", "[\n", 1), "-:1 longer than 64 MiB; write one record per line")
	part := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 30<<20) + `"}]}`
	f("a long array", "[\n"+part+",\n"+part+",\n\n"+part+"]", "-:2", "-:3", "-:5")
	f("a long array, cut", "[\n"+part+",\n"+part+",\n"+part, "-:2", "-:3", "-:4", "-:4 read JSON: unexpected end of JSON input")
}

func BenchmarkLint(b *testing.B) {
	for _, name := range []string{recordedtest.Conversations, recordedtest.Exchanges} {
		b.Run(name, func(b *testing.B) {
			f := must.Get(os.Open(recordedtest.Path(b, name)))(b)
			defer func() { _ = f.Close() }() // used for reading only
			z := must.Get(gzip.NewReader(f))(b)
			text := must.Get(io.ReadAll(z))(b)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				must.Do(b, New(failing{}).run(b.Context(), []string{"-"}, bytes.NewReader(text)))
			}
		})
	}
}

// Lines that are no records and repeat are one Result, which counts them all. Records that repeat are judged one by one.
func TestRuns(t *testing.T) {
	k := &keep{}
	l := New(k)
	one := `{"messages":[` + user + `]}` + "\n"
	text := "\n\n{}\n{}\n{}\n" + strings.Repeat(one, 3) + `{"request":null}` + "\n" + `{"request":null}` + "\n[" + strings.TrimSpace(one) + "]\n[" + strings.TrimSpace(one) + "]"
	must.Do(t, l.run(t.Context(), []string{"-"}, strings.NewReader(text)))
	var got []string
	for _, r := range k.results {
		got = append(got, r.Source+" "+r.repeated(r.Error+r.NotJudged))
	}
	want := []string{
		"-:3 " + records.ErrNoHistory.Error() + "; the next 2 lines are identical", "-:6 ", "-:7 ", "-:8 ",
		"-:9 the record has no request body; the next line is identical", "-:11 ", "-:12 ",
	}
	if diff := cmp.Diff(want, got); diff != "" || l.Counts != (Counts{Checked: 5, Unjudged: 2, Unreadable: 3}) {
		t.Errorf("%+v (-want +got):\n%s", l.Counts, diff)
	}
}
