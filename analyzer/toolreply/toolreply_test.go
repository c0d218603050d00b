package toolreply_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/toolreply"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// read returns how certain it is that the reply in a request reports an error, and its hash.
func read(t *testing.T, d wire.Dialect, body []byte) (e string, hash uint64) {
	t.Helper()
	var f facts.Request
	must.Do(t, facts.ScanRequest(d, body, &f))
	var r toolreply.Reader
	for i := range f.Messages {
		for _, p := range f.Messages[i].Replies {
			got := r.Read(body[p.Start:p.End], p.IsError, p.ContentBytes)
			must.Equal(t, got.Hash, r.Read(body[p.Start:p.End], p.IsError, -1).Hash, "without the size of the content")
			return got.Error, got.Hash
		}
	}
	t.Fatalf("no reply in %s", body)
	return "", 0
}

// chat returns a request of chat completions with this reply.
func chat(text string) []byte {
	return []byte(`{"model":"m","messages":[{"role":"tool","tool_call_id":"c","content":` + strconv.Quote(text) + `}]}`)
}

// Fields of protocols are certain. Shapes keep those that have a place in the dialect.
func TestCertain(t *testing.T) {
	f := func(name string, d wire.Dialect, reply, want, inShape string) {
		t.Helper()
		var body string
		switch d {
		case wire.Anthropic, wire.Bedrock:
			body = `{"messages":[{"role":"user","content":[` + reply + `]}]}`
		case wire.OpenAIResponses:
			body = `{"input":[` + reply + `]}`
		case wire.Gemini:
			body = `{"contents":[{"role":"user","parts":[` + reply + `]}]}`
		default:
			body = `{"messages":[` + reply + `]}`
		}
		got, hash := read(t, d, []byte(body))
		must.Equal(t, got, want, "%s", name)
		must.Equal(t, hash != 0, true, "%s has a hash", name)
		got, hash = read(t, d, shape.New([]byte("key")).Request(d, []byte(body), 1<<20))
		must.Equal(t, got, inShape, "%s, its shape", name)
		must.Equal(t, hash != 0, true, "%s has a hash", name)
	}
	const certain = toolreply.Certain
	f("anthropic", wire.Anthropic, `{"type":"tool_result","tool_use_id":"c","content":"no such file","is_error":true}`, certain, certain)
	f("anthropic, parts", wire.Anthropic, `{"type":"tool_result","tool_use_id":"c","is_error":true,"content":[{"type":"text","text":"no"}]}`, certain, certain)
	f("anthropic, no error", wire.Anthropic, `{"type":"tool_result","tool_use_id":"c","content":"1 error found","is_error":false}`, "", "")
	f("bedrock", wire.Bedrock, `{"toolResult":{"toolUseId":"c","content":[{"text":"no"}],"status":"error"}}`, certain, certain)
	f("bedrock, no error", wire.Bedrock, `{"toolResult":{"toolUseId":"c","content":[{"json":{"rows":3}}],"status":"success"}}`, "", "")
	f("responses, a patch", wire.OpenAIResponses, `{"type":"apply_patch_call_output","call_id":"c","status":"failed","output":"no such line"}`, certain, certain)
	f("responses", wire.OpenAIResponses, `{"type":"function_call_output","call_id":"c","status":"incomplete","output":"a"}`, "", "")
	f("gemini", wire.Gemini, `{"functionResponse":{"name":"f","response":{"error":"no such city"}}}`, certain, "")
	f("gemini, its reason", wire.Gemini, `{"functionResponse":{"name":"f","response":{"error":{"code":404}}}}`, certain, "")
	f("gemini, no error", wire.Gemini, `{"functionResponse":{"name":"f","response":{"output":"21 degrees","error":null}}}`, "", "")
	f("gemini, a text", wire.Gemini, `{"functionResponse":{"name":"f","response":{"result":"Error executing tool f: no"}}}`, toolreply.Likely, "")
	f("a result of MCP as text", wire.OpenAIChat, `{"role":"tool","tool_call_id":"c","content":"{\"content\":[{\"type\":\"text\",\"text\":\"no\"}],\"isError\":true}"}`, certain, "")
	f("a result of MCP", wire.OpenAIChat, `{"role":"tool","tool_call_id":"c","content":"{\"content\":[],\"isError\":false}"}`, "", "")
}

// The texts of frameworks are likely errors, and texts that only resemble them are none.
func TestTexts(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		for _, body := range [][]byte{chat(text), []byte(`{"messages":[{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":` + strconv.Quote(text) + `}]}]}`)} {
			got, hash := read(t, wire.OpenAIChat, body)
			must.Equal(t, got, want, "%q", text)
			must.Equal(t, hash != 0, true, "%q has a hash", text)
		}
	}
	const likely = toolreply.Likely
	f("Error: KeyError('city')\n Please fix your mistakes.", likely)                                                             // LangGraph
	f("1 validation error for f\n Please fix your mistakes.", likely)                                                            // its own text before
	f("Error executing tool 'f' with kwargs {'a': 1} with error:\n no\n Please fix the error and try again.", likely)            // LangGraph
	f("Error invoking tool 'f' with kwargs {} with error:\n a: Field required\n Please fix the error and try again.", likely)    // LangGraph
	f("Error executing tool f: boom", likely)                                                                                    // MCP, FastMCP
	f("Error executing tool: This tool always fails", likely)                                                                    // CrewAI
	f("Error calling tool 'f': boom", likely)                                                                                    // FastMCP 2
	f("MCP error -32602: Invalid arguments for tool f", likely)                                                                  // MCP, TypeScript
	f("An error occurred while running the tool. Please try again. Error: boom", likely)                                         // OpenAI Agents SDK
	f("An error occurred while parsing tool arguments. Please try again with valid JSON. Error: Extra data", likely)             // OpenAI Agents SDK
	f("I encountered an error while trying to use the tool. This was the error: no.\n Tool f accepts these inputs: a", likely)   // CrewAI
	f("Error: Function f not found.", likely)                                                                                    // AutoGen
	f("Error: Requested function \"f\" not found.", likely)                                                                      // Microsoft.Extensions.AI
	f("Encountered error: boom", likely)                                                                                         // LlamaIndex
	f("1 validation error:\n```json\n[]\n```\n\nFix the errors and try again.", likely)                                          // Pydantic AI
	f(strings.Repeat("a long reason ", 100)+"\n\nFix the errors and try again.", likely)                                         // also long
	f("Call id: c\nError:\nboom\nNow let's retry: take care not to repeat previous errors! If you have retried several times, "+ // smolagents
		"try a completely different approach.\n", likely)
	f("\n <tool_use_error>File has not been read yet.</tool_use_error>", likely)                                               // Claude Code
	f("Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nZeroDivisionError: division by zero", likely) // Python
	f(`{"error": "no such order"}`, likely)
	f(` {"success": false, "error": {"code": "E1", "message": "no"}}`, likely)
	f(`{"type":"text","text":"Error executing tool f: no such order","annotations":null}`, likely) // MCP, OpenAI Agents SDK
	f(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`, likely)

	f("", "")
	f("The log has 3 lines with Error: and a\nTraceback (most recent call last):", "")
	f("No error occurred while running the tool.", "")
	f("Errors: none", "")
	f("ERROR_CODES = {}", "")
	f("Fix the errors and try again. Then run the tests.", "")
	f("2 errors, 3 warnings", "")
	f(`{"error": null, "rows": []}`, "")
	f(`{"error": "", "rows": []}`, "")
	f(`{"error": false}`, "")
	f(`{"error": 0.05, "estimate": 1.2}`, "")
	f(`{"ok": true, "error": "none"}`, "")
	f(`{"type":"text","text":"no error","annotations":null}`, "")
	f(`{"errors": ["a"]}`, "")
	f(`{"data": {"error": "declined"}}`, "")
	f(`{"payment": "p1", "status": "failed", "error": "card declined", "amount": 3, "currency": "EUR"}`, "")
	f(`[{"error": "no"}]`, "")
}

// The hash is that of the content: the id of the call, which differs each time, is not part of it.
func TestHash(t *testing.T) {
	_, a := read(t, wire.OpenAIChat, []byte(`{"messages":[{"role":"tool","tool_call_id":"c1","content":"21 degrees"}]}`))
	_, b := read(t, wire.OpenAIChat, []byte(`{"messages":[{"role":"tool","content":"21 degrees","tool_call_id":"c2"}]}`))
	_, c := read(t, wire.OpenAIChat, []byte(`{"messages":[{"role":"tool","tool_call_id":"c1","content":"22 degrees"}]}`))
	must.Equal(t, a == b && a != c, true, "the text decides")
	_, a = read(t, wire.Bedrock, []byte(`{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"c1","content":[{"text":"a"}]}}]}]}`))
	_, b = read(t, wire.Bedrock, []byte(`{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"c2","content":[{"text":"a"}]}}]}]}`))
	must.Equal(t, a == b, true, "the content decides")
}

// Whatever a reply contains, reading it ends.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"role":"tool","content":"{\"error\":\"no\"}"}`))
	f.Add([]byte(`{"toolResult":{"content":[{"json":{"error":{}}}],"status":"error"}}`))
	f.Add([]byte(`{"functionResponse":{"response":{"result":"Error: \u0041"}}}`))
	f.Add([]byte(`{"content":[{"text":"`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var r toolreply.Reader
		for _, size := range []int{-1, 0, 5, len(b) - 20, math.MaxInt} {
			r.Read(b, false, size)
		}
	})
}

// Replies in replies are not read, because each level would be read again for all levels around it.
func TestNested(t *testing.T) {
	const depth = 20_000
	b := []byte(strings.Repeat(`{"toolResult":`, depth) + `{"status":"error"}` + strings.Repeat("}", depth))
	began := slowtest.Processor(t)
	var r toolreply.Reader
	must.Equal(t, r.Read(b, false, -1).Error, "", "error")
	if took := slowtest.Processor(t) - began; took > time.Second {
		t.Errorf("%d bytes took %v", len(b), took)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{100, 4000, 100_000} {
		reply := []byte(`{"role":"tool","tool_call_id":"call_1","content":` + strconv.Quote(strings.Repeat("12 return nil\n", size/14)) + `}`)
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.SetBytes(int64(len(reply)))
			b.ReportAllocs()
			var r toolreply.Reader
			for b.Loop() {
				r.Read(reply, false, size/14*15)
			}
		})
	}
}
