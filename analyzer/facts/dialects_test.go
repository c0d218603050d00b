package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A dialectTest is what the tests of requests, which all dialects share, need of one.
type dialectTest struct {
	dialect         wire.Dialect
	messages, tools string                                            // members of the history and the tools
	seeds           []string                                          // requests that are difficult for a scanner
	check           func(t *testing.T, f *Request, body []byte)       // compares the facts of body with the reference
	session         func(tb testing.TB, size int, seed uint64) []byte // an agent's request of about size bytes
	mutations       int                                               // none of Bedrock, whose scan does not hash the text of a message with a second role
	format          string                                            // of the recorded conversations; "" if there are none
	history         func(b []byte, n node) Request                    // reference of a list of messages
	examples        func(dialect string) (uses bool)                  // examples of the specification to read
}

func anyDialect(string) bool { return true }

var (
	chatTest = &dialectTest{
		wire.OpenAIChat, "messages", "tools", requestSeeds, checkChat, agentSession, 50_000, "openai.chat", refMessages, anyDialect,
	}
	responsesTest = &dialectTest{
		wire.OpenAIResponses, "input", "tools", responsesSeeds, checkResponses, responsesSession, 30_000, "openai.responses", refInput,
		func(dialect string) bool { return dialect == "openai_responses" },
	}
	anthropicTest = &dialectTest{
		wire.Anthropic, "messages", "tools", anthropicSeeds, checkAnthropic, anthropicSession, 10_000, "anthropic.messages", refAnthropicMessages, anyDialect,
	}
	geminiTest  = &dialectTest{wire.Gemini, "contents", "tools", geminiSeeds, checkGemini, geminiSession, 10_000, "", nil, nil}
	bedrockTest = &dialectTest{wire.Bedrock, "messages", "toolConfig", bedrockSeeds, checkBedrock, bedrockSession, 0, "", nil, nil}

	dialectTests = []*dialectTest{chatTest, responsesTest, anthropicTest, geminiTest, bedrockTest}
)

// eachDialect runs f for each dialect, with a Request to use again.
func eachDialect(t *testing.T, f func(t *testing.T, d *dialectTest, r *Request)) {
	for _, d := range dialectTests {
		t.Run(string(d.dialect), func(t *testing.T) { f(t, d, new(Request)) })
	}
}

// The facts of difficult requests, and of mutations of them, are those of the reference. The fuzz targets continue from here.
func TestSameAsReference(t *testing.T) {
	eachDialect(t, func(t *testing.T, d *dialectTest, f *Request) {
		for _, seed := range d.seeds {
			d.check(t, f, []byte(seed))
		}
		n := slowtest.Tenth(t, d.mutations)
		r := rand.New(rand.NewPCG(1, 2))
		valid := 0
		for range n {
			b := mutate(r, d.seeds[r.IntN(len(d.seeds))])
			if json.Valid(b) {
				valid++
			}
			d.check(t, f, b)
		}
		t.Logf("%d of %d mutations are valid JSON", valid, n)
	})
}

// Every prefix of a request is truncated.
func TestPrefixesAreTruncated(t *testing.T) {
	eachDialect(t, func(t *testing.T, d *dialectTest, f *Request) {
		for _, seed := range d.seeds {
			seed = strings.TrimSpace(seed)
			for n := 1; n < len(seed); n++ {
				if err := ScanRequest(d.dialect, []byte(seed[:n]), f); !errors.Is(err, ErrTruncated) {
					t.Fatalf("%s: error %v, want ErrTruncated", seed[:n], err)
				}
			}
		}
	})
}

func TestSpecExamples(t *testing.T) {
	b, err := os.ReadFile("../../../shared/spec/examples.json")
	if os.IsNotExist(err) {
		t.Skip("SKIPPED: spec/examples.json not found")
	}
	must.Do(t, err)
	var examples []struct {
		Dialect          string
		Violating, Fixed json.RawMessage
	}
	must.Do(t, json.Unmarshal(b, &examples))
	eachDialect(t, func(t *testing.T, d *dialectTest, f *Request) {
		for _, e := range examples {
			if d.examples != nil && d.examples(e.Dialect) {
				d.check(t, f, e.Violating)
				d.check(t, f, e.Fixed)
			}
		}
	})
}

func TestRecordedConversations(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	eachDialect(t, func(t *testing.T, d *dialectTest, f *Request) {
		if d.format == "" {
			t.Skip("no conversation is recorded")
		}
		n := 0
		recordedtest.Lines(t, recordedtest.Conversations, func(_ int, line []byte) {
			var c struct {
				ID, Format string
				Messages   json.RawMessage
			}
			must.Do(t, json.Unmarshal(line, &c))
			if c.Format != d.format {
				return
			}
			n++
			must.Do(t, ScanMessages(d.dialect, c.Messages, f), c.ID)
			want := d.history(c.Messages, parse(c.Messages))
			want.Bare = true
			if diff := diffFacts(&want, f); diff != "" {
				t.Fatalf("%s: facts (-reference +scan):\n%s", c.ID, diff)
			}
			for i, m := range f.Messages {
				if d == responsesTest && m.Fields != 0 {
					t.Errorf("%s: item %d: %q is not in the schema", c.ID, i, m.OtherField)
				}
			}
		})
		t.Logf("%d conversations", n)
	})
}

func TestScanAllocatesNothing(t *testing.T) {
	eachDialect(t, func(t *testing.T, d *dialectTest, f *Request) {
		body := d.session(t, 100_000, 1)
		d.check(t, f, body)
		if len(f.Messages) < 20 || len(f.Tools) != f.ToolCount || f.ToolCount == 0 && d != responsesTest {
			t.Errorf("%d messages, %d tools", len(f.Messages), f.ToolCount)
		}
		if n := testing.AllocsPerRun(10, func() {
			must.Do(t, ScanRequest(d.dialect, body, f))
		}); n != 0 {
			t.Errorf("%v allocations per scan", n)
		}
	})
}

func BenchmarkScanRequest(b *testing.B) {
	for _, d := range dialectTests {
		for _, size := range []int{10_000, 100_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%dKB", d.dialect, size/1000), func(b *testing.B) {
				bodies := make([][]byte, 16)
				for i := range bodies {
					bodies[i] = d.session(b, size, uint64(i))
				}
				benchScan(b, d.dialect, bodies)
			})
		}
	}
}

// fuzzRequest compares the facts of a body with the reference.
func fuzzRequest(f *testing.F, d *dialectTest) {
	for _, seed := range d.seeds {
		f.Add([]byte(seed))
	}
	facts := new(Request)
	f.Fuzz(func(t *testing.T, body []byte) { d.check(t, facts, body) })
}

func FuzzScanRequest(f *testing.F)          { fuzzRequest(f, chatTest) }
func FuzzScanResponsesRequest(f *testing.F) { fuzzRequest(f, responsesTest) }
func FuzzScanAnthropicRequest(f *testing.F) { fuzzRequest(f, anthropicTest) }
func FuzzScanGeminiRequest(f *testing.F)    { fuzzRequest(f, geminiTest) }
func FuzzScanBedrockRequest(f *testing.F)   { fuzzRequest(f, bedrockTest) }

// exchanges calls f with the recorded exchanges of an API.
func exchanges(tb testing.TB, api string, f func(e *exchange)) {
	tb.Helper()
	recordedtest.Lines(tb, recordedtest.Exchanges, func(_ int, line []byte) {
		if !bytes.Contains(line, []byte(api)) {
			return
		}
		e := must.JSON[exchange](tb, line)
		if e.API == api {
			f(&e)
		}
	})
}

// checkSpans checks that the messages of a body are in it, and their calls and replies in them, in order.
func checkSpans(t *testing.T, body []byte, f *Request) {
	t.Helper()
	for _, m := range f.Messages {
		if m.Start < 0 || m.End <= m.Start || m.End > len(body) {
			t.Fatalf("%q: message span %d..%d", body, m.Start, m.End)
		}
		at := m.Start
		for _, c := range m.Calls {
			if c.Start < at || c.End <= c.Start || c.End > m.End {
				t.Fatalf("%q: call at %d..%d of message %d..%d", body, c.Start, c.End, m.Start, m.End)
			}
			at = c.End
		}
		at = m.Start
		for _, r := range m.Replies {
			if r.Start < at || r.End <= r.Start || r.End > m.End {
				t.Fatalf("%q: reply at %d..%d of message %d..%d", body, r.Start, r.End, m.Start, m.End)
			}
			at = r.End
		}
	}
}

// answerIn scans an answer.
func answerIn(t testing.TB, d wire.Dialect, contentType, body string) Response {
	t.Helper()
	var r Response
	must.Do(t, ScanResponse(d, contentType, []byte(body), &r), body)
	return r
}

// checkAnswerIn compares an answer's facts with want, and its content with text if want has a string.
func checkAnswerIn(t *testing.T, d wire.Dialect, contentType, body, text string, want Response) {
	t.Helper()
	if want.Content == String {
		want.ContentHash, want.ContentBytes = xxh3.HashString(text), len(text)
	}
	must.Agree(t, cmp.Diff(want, answerIn(t, d, contentType, body), cmpopts.EquateEmpty()), body)
}
