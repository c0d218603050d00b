package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A store answers all queries.
type store func(ctx context.Context, sql string) (*clickhouse.Result, error)

func (s store) Query(ctx context.Context, sql string, _ map[string]string) (*clickhouse.Result, error) {
	return s(ctx, sql)
}

func options(t *testing.T, s store) Options {
	t.Helper()
	return Options{
		Open: func(context.Context) (rows.Querier, func(), error) {
			if s == nil {
				return nil, nil, errors.New("llmtap is not running; start it with llmtap up")
			}
			return s, func() {}, nil
		},
		Problems: func(context.Context) (problems.API, error) { return knownProblems{}, nil },
		Pages:    func(rows.Querier) string { return "" }, Version: "1.2.3", Logger: slog.New(slog.DiscardHandler), // sessions end after their test
	}
}

// connect returns a client of a server with these options.
func connect(t *testing.T, o Options) *mcp.ClientSession {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	must.Get(newServer(o, make(chan struct{}, maxCalls)).Connect(t.Context(), there, nil))(t)
	c := must.Get(mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), here, nil))(t)
	t.Cleanup(func() { _ = c.Close() }) // only the answers matter
	return c
}

// ask calls a tool with arguments as JSON.
func ask(t *testing.T, c *mcp.ClientSession, tool, arguments string) (text string, res *mcp.CallToolResult) {
	t.Helper()
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	must.Do(t, err, tool, arguments)
	return res.Content[0].(*mcp.TextContent).Text, res
}

func TestTools(t *testing.T) {
	c := connect(t, options(t, nil))
	if about := c.InitializeResult(); about.ServerInfo.Version != "1.2.3" || !strings.Contains(about.Instructions, "withheld") {
		t.Errorf("%+v", about)
	}
	list := must.Get(c.ListTools(t.Context(), nil))(t)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if !tool.Annotations.ReadOnlyHint || *tool.Annotations.OpenWorldHint || len(tool.Description) < 100 {
			t.Errorf("%+v", tool)
		}
		schema, _ := json.Marshal(tool.InputSchema)
		var in struct {
			Properties map[string]struct{ Description string }
		}
		must.Do(t, json.Unmarshal(schema, &in))
		for name, p := range in.Properties {
			if p.Description == "" {
				t.Errorf("%s: argument %s has no description", tool.Name, name)
			}
		}
	}
	must.Equal(t, strings.Join(names, " "), "backtest explain incident lint problems query repair rules show sql whats_wrong", "tools")
	all, _ := json.Marshal(list)
	if len(all) > 9800 {
		t.Errorf("the list of tools, which is in every context, has %d bytes", len(all))
	}
}

// An error is an answer that says what to do.
func TestErrors(t *testing.T) {
	none := func(context.Context, string) (*clickhouse.Result, error) { return &clickhouse.Result{}, nil }
	c := connect(t, options(t, none))
	f := func(tool, arguments, want string) {
		t.Helper()
		text, res := ask(t, c, tool, arguments)
		if !res.IsError || !strings.Contains(text, want) {
			t.Errorf("%s %s: error %v, %s", tool, arguments, res.IsError, text)
		}
	}
	f("show", `{}`, `"id"`)
	f("show", `{"id":" "}`, "id is empty")
	f("show", `{"id":"nonsense"}`, "whats_wrong, incident and query conversations_hit return ids")
	f("show", `{"id":"nonsense","limit":1000}`, "limit must be from 1 to 200")
	f("show", `{"idd":"nonsense"}`, "idd")
	f("show", `{"id":7}`, "string")
	f("whats_wrong", `{"since":"soon"}`, `"soon" is not a time`)
	f("whats_wrong", `{"until":"soon"}`, `"soon" is not a time`)
	f("incident", `{"why":"tool_calls_dropped"}`, "did you mean tool_calls_dropped_on_save?")
	f("query", `{"name":"cause"}`, "did you mean causes?")
	f("query", `{"name":"causes","parameters":{"sinc":"1h"}}`, "did you mean since?")
	f("query", `{"name":"causes","parameters":{"since":{}}}`, "parameters.since")
	f("query", `{"name":"conversation"}`, "requires conversation_id")
	f("query", `{"name":"tool_replies","parameters":{"tool":"x"}}`, "they are withheld")
	f("problems", `{"id":"00a"}`, "too short for an id")
	f("problems", `{"id":"1234"}`, "there is no problem 1234")
	f("problems", `{"state":"open"}`, `"open" is not one of regressed, new`)
	f("sql", `{"sql":""}`, "sql is empty")
	f("sql", `{"sql":"SELECT * FROM messages"}`, "they are withheld")
	f("lint", `{"history":""}`, "history is empty")
	f("repair", `{"history":""}`, "history is empty")
	f("repair", `{"history":"garbage"}`, "invalid character 'g'")
	f("lint", `{"history":"garbage"}`, "invalid character 'g'")
	f("lint", `{"history":{"a":1}}`, "no history")
	f("lint", `{"history":"[]","dialect":"french"}`, `"french" must be one of auto, openai_chat`)
	f("explain", `{"error":"  "}`, "error is empty")
	f("rules", `{"id":"orphan_reply"}`, "did you mean orphan_tool_reply?")
	f("rules", `{"kind":"law"}`, "the kinds are rule, cause, root_cause, signal")
	f("rules", `{"kind":"rule","offset":100000}`, "offset 100000 is not in the answer")

	must.Fail(t, must.Err(c.CallTool(t.Context(), &mcp.CallToolParams{Name: "nosuch"})), "", "an unknown tool answers")
	c = connect(t, options(t, nil))
	for _, tool := range []string{"whats_wrong", "incident", "query"} {
		f(tool, map[bool]string{true: `{"name":"causes"}`, false: `{}`}[tool == "query"], "start it with llmtap up")
	}
	c = connect(t, options(t, func(context.Context, string) (*clickhouse.Result, error) { panic("x") }))
	f("sql", `{"sql":"SELECT 1"}`, "BUG: the tool sql failed")
	long := strings.Repeat("é", 5000)
	c = connect(t, options(t, func(context.Context, string) (*clickhouse.Result, error) { return nil, errors.New(long) }))
	f("sql", `{"sql":"SELECT 1"}`, long[:1998]+" …")
}

func TestOffline(t *testing.T) {
	c := connect(t, options(t, nil))
	f := func(tool, arguments string, want ...string) {
		t.Helper()
		text, res := ask(t, c, tool, arguments)
		for _, w := range want {
			if res.IsError || !strings.Contains(text, w) {
				t.Errorf("%s %s: error %v, %s", tool, arguments, res.IsError, text)
			}
		}
	}
	const orphan = `[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"call_1","content":"y"}]`
	quoted, _ := json.Marshal(orphan)
	for _, history := range []string{orphan, string(quoted)} { // some clients send JSON for a string
		f("lint", `{"history":`+history+`}`, "orphan_tool_reply (would be rejected): message 1 (tool) answers call_1", "fix: ", "1 history checked, 1 would be rejected")
	}
	f("lint", `{"history":[{"role":"user","content":"x"}],"dialect":"anthropic"}`, "0 would be rejected")
	f("repair", `{"history":[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"c","content":"y"}]}`, "removes a reply without its call", `{"op":"remove","path":"/1","reason":"orphan_tool_reply`)
	f("repair", `{"history":[{"role":"user","content":"x"}]}`, "Nothing to repair")
	f("explain", `{"error":"Error code: 429 - rate limit reached"}`, "cause     rate_limit", "fix ")
	f("explain", `{"error":{"body":"{\"error\":{\"message\":\"Invalid API key\"}}","status":401,"provider":"openai"}}`, "cause     ", "fix ")
	f("rules", `{"id":"orphan_tool_reply"}`, "orphan_tool_reply (rule)", "Fix: ", "Rejected by: ")
	f("rules", `{"kind":"root_cause"}`, "tool_calls_dropped_on_save")
	f("query", `{}`, "failures_by_stage", "Which stages fail")
}

// A long answer is continued with offset.
func TestPages(t *testing.T) {
	c := connect(t, options(t, nil))
	whole, offset := "", 0
	for range 10 {
		text, _ := ask(t, c, "rules", fmt.Sprintf(`{"offset":%d}`, offset))
		part, more, ok := strings.Cut(text, "\n[bytes ")
		whole += part
		if len(text) > maxAnswer+100 {
			t.Errorf("an answer of %d bytes", len(text))
		}
		if !ok {
			break
		}
		whole += "\n"
		must.Do(t, must.Err(fmt.Sscanf(more[strings.Index(more, "offset"):], "offset %d]", &offset)), more)
	}
	if offset == 0 || strings.Count(whole, "orphan_tool_reply") != 1 || !strings.Contains(whole, "unknown_no_history") || !strings.Contains(whole, "Signals: ") {
		t.Errorf("offset %d, %s", offset, whole)
	}
	for text := "é"; len(text) < 50_000; text += "é" { // a page never ends within a character
		if len(text)%1111 != 0 {
			continue
		}
		for offset := 0; offset < min(len(text), 5); offset++ {
			if part, err := page(text, offset); err != nil || strings.Contains(part, "\uFFFD") || len(part) > maxAnswer+100 {
				t.Fatal(len(text), offset, err)
			}
		}
	}
}

// Rows that do not fit are left out, and so are the ends of long values.
func TestRows(t *testing.T) {
	c := connect(t, options(t, func(context.Context, string) (*clickhouse.Result, error) {
		res := &clickhouse.Result{Columns: []clickhouse.Column{{Name: "n", Type: "UInt64"}, {Name: "text", Type: "String"}}}
		for i := range 1000 {
			res.Rows = append(res.Rows, []any{uint64(i), strings.Repeat("x", i)})
		}
		return res, nil
	}))
	seen := 0
	for seen < 1000 {
		text, res := ask(t, c, "sql", fmt.Sprintf(`{"sql":"SELECT n, text FROM x ORDER BY n","offset":%d}`, seen))
		raw, _ := json.Marshal(res.StructuredContent)
		var data struct {
			Rows  []struct{ N int }
			Total int `json:"total_rows"`
		}
		if err := json.Unmarshal(raw, &data); err != nil || len(data.Rows) == 0 || data.Total != 1000 || data.Rows[0].N != seen {
			t.Fatal(seen, err, text)
		}
		if len(text) > maxAnswer+500 || len(raw) > maxAnswer+500 {
			t.Errorf("%d bytes of text, %d of JSON", len(text), len(raw))
		}
		seen += len(data.Rows)
		if more := fmt.Sprintf("the same call with offset %d,", seen); strings.Contains(text, more) != (seen < 1000) {
			t.Errorf("%d rows seen: %s", seen, text[len(text)-200:])
		}
	}
}

// A prompt cache that a change of the agent broke is among what is wrong, though no call failed; an eviction is not.
func TestBrokenCache(t *testing.T) {
	c := connect(t, options(t, func(_ context.Context, sql string) (*clickhouse.Result, error) {
		res := &clickhouse.Result{}
		if strings.Contains(sql, "cached_percent") {
			for _, name := range []string{"service", "stage", "service_version", "model", "reason", "element", "detail", "reusable", "missed", "calls_with_it", "missed_usd"} {
				res.Columns = append(res.Columns, clickhouse.Column{Name: name})
			}
			res.Rows = [][]any{
				{"checkout", "planner", "2.5.0", "m", "system_changed", "system", "time", int64(1000), int64(900), int64(40), 0.5},
				{"checkout", "writer", "2.5.0", "m", "tools_changed", "tools", "", int64(1000), int64(90), int64(1), 0.1},
				{"checkout", "planner", "2.5.0", "m", "evicted", "", "", int64(1000), int64(100), int64(4), 0.1},
			}
		} else if strings.Contains(sql, "last_hit") {
			res.Columns = []clickhouse.Column{{Name: "calls"}, {Name: "hits"}}
			res.Rows = [][]any{{int64(60), int64(40)}}
		}
		return res, nil
	}))
	text, _ := ask(t, c, "whats_wrong", `{}`)
	for _, part := range []string{
		"- cache_broken: checkout/planner: 2.5.0 of m misses the prompt cache", "the system prompt changed (time); 900 tokens in 40 calls, $0.50 more. Fix: Put what changes",
		`; next: query {"name":"cache","parameters":{"service":"checkout",`,
	} {
		must.Contain(t, text, part)
	}
	must.Equal(t, strings.Count(text, "cache_broken"), 1, "broken caches in %s", text)
	text, _ = ask(t, c, "incident", `{"service":"checkout","stage":"planner","why":"system_changed"}`)
	must.Contain(t, text, "checkout/planner, system_changed: the system prompt changed\n40 of 60 calls")
	must.Contain(t, text, `next: query {"name":"cache","parameters":{"service":"checkout",`)
}

// A cause that is a guess is told as one, unless the root cause is known.
func TestGuess(t *testing.T) {
	c := connect(t, options(t, func(_ context.Context, sql string) (*clickhouse.Result, error) {
		res := &clickhouse.Result{}
		columns := func(names ...string) {
			for _, name := range names {
				res.Columns = append(res.Columns, clickhouse.Column{Name: name})
			}
		}
		switch {
		case strings.Contains(sql, "percent_of_failed"):
			columns("service", "cause", "known", "root_cause", "failed_calls")
			res.Rows = [][]any{
				{"a", "server_error", map[string]uint64{"guessed": 8}, "", uint64(8)},
				{"b", "server_error", map[string]uint64{"guessed": 3, "stated": 5}, "", uint64(8)},
				{"c", "orphan_tool_reply", map[string]uint64{"guessed": 8}, "tool_calls_dropped_on_save", uint64(8)},
				{"d", "server_error", map[string]uint64{"stated": 8}, "", uint64(8)},
			}
		case strings.Contains(sql, "AS last_hit") && strings.Contains(sql, "calls_since"):
			columns("calls", "hits", "guessed")
			res.Rows = [][]any{{uint64(20), uint64(8), uint64(3)}}
		}
		return res, nil
	}))
	_, meaning, _ := wording.Problem("server_error", false)
	text, res := ask(t, c, "whats_wrong", `{}`)
	for _, part := range []string{
		"1. a: 8 of 0 calls failed (–): probably " + meaning + "\n", "2. b: 8 of 0 calls failed (–): " + meaning + " (guessed for 3 of 8 calls)\n", "4. d: 8 of 0 calls failed (–): " + meaning + "\n",
	} {
		must.Contain(t, text, part)
	}
	must.Equal(t, strings.Count(text, "probably"), 1, "guesses in %s", text)
	must.Contain(t, string(must.Get(json.Marshal(res.StructuredContent))(t)), `"guessed_calls":3`)
	text, _ = ask(t, c, "incident", `{"service":"b","why":"server_error"}`)
	must.Contain(t, text, "b, server_error: "+meaning+" (guessed for 3 of 8 calls)\n")
}

// At most maxCalls run at a time. A call that takes too long is an error.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		c := connect(t, options(t, func(ctx context.Context, _ string) (*clickhouse.Result, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		start := time.Now()
		done := make(chan string, 10)
		for range cap(done) {
			go func() {
				res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "sql", Arguments: json.RawMessage(`{"sql":"SELECT 1"}`)})
				if err != nil {
					done <- err.Error()
					return
				}
				done <- res.Content[0].(*mcp.TextContent).Text
			}()
		}
		for range cap(done) {
			if text := <-done; !strings.HasPrefix(text, "no answer within 45s: choose a shorter time range") {
				t.Error(text)
			}
		}
		if most.Load() != maxCalls || time.Since(start) != callTimeout {
			t.Errorf("%d calls at a time, %s", most.Load(), time.Since(start))
		}
		_ = c.Close()
		synctest.Wait()
	})
}

// A statement that may read texts is refused, however it names the table.
func TestWithoutTexts(t *testing.T) {
	for _, sql := range []string{
		"SELECT body FROM messages", "SELECT * FROM default.messages_final", "SELECT * FROM `messages`", `SELECT * FROM "messages"`, "SELECT * FROM “messages”",
		`SELECT * FROM "\x6dessages"`, "SELECT * FROM merge(currentDatabase(), '^mes')", "SELECT * FROM `merge`(currentDatabase(), '^mes')",
		"SELECT * FROM mergeTreeIndex(currentDatabase(), concat('mess', 'ages'))", "SELECT * FROM clusterAllReplicas(default, currentDatabase(), concat('m', 'essages'))",
		"SELECT * FROM loop (currentDatabase(), 'mess' || 'ages')", "SELECT (SELECT any(body) FROM /* x */ MESSAGES)", "SELECT joinGet('mess' || 'ages', 'body', 1)",
		"SELECT * FROM {t:Identifier} SETTINGS param_t = 'messages'", "SELECT query FROM system.query_log", "SELECT query FROM `system`.query_log", "SHOW CREATE TABLE messages",
		"WITH a AS (SELECT 1) SELECT * FROM a, messages", "EXPLAIN SELECT * FROM messages",
	} {
		must.Fail(t, withoutTexts(sql), "", sql, "allowed")
	}
	for _, sql := range []string{
		"SELECT model, count() FROM exchanges_final WHERE error_text LIKE '%messages%' GROUP BY ALL", "SELECT 1 -- messages", "DESCRIBE TABLE findings_final",
		"SELECT avgMerge(x) FROM (SELECT avgState(1) AS x)", "SHOW TABLES", "SELECT merged FROM x", "SELECT * FROM numbers(3)",
	} {
		must.Do(t, withoutTexts(sql), sql)
	}
}

// Over HTTP, texts are returned on request only, and a client needs no session.
func TestHandler(t *testing.T) {
	srv := httptest.NewServer(NewHandler(options(t, nil)))
	defer srv.Close()
	for query, withheld := range map[string]bool{"": true, "?content=false": true, "?content=true": false} {
		c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: srv.URL + query}, nil)
		must.Do(t, err)
		must.Equal(t, strings.Contains(c.InitializeResult().Instructions, "withheld"), withheld, "%q: instructions with withheld", query)
		text, _ := ask(t, c, "rules", `{"id":"rate_limit"}`)
		must.Contain(t, text, "rate_limit (cause)")
		if text, res := ask(t, c, "sql", `{"sql":"SELECT body FROM messages"}`); !res.IsError || strings.Contains(text, "withheld") != withheld {
			t.Errorf("%q: %s", query, text)
		}
		must.Do(t, c.Close())
	}
	for body, want := range map[string]int{"garbage": 400, strings.Repeat("x", maxBody+1): 413, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`: 200} {
		r := httptest.NewRequest("POST", Path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		NewHandler(options(t, nil)).ServeHTTP(w, r)
		must.Equal(t, w.Code, want, "%.20s: %.200s", body, w.Body)
	}
}

func TestAdvise(t *testing.T) {
	must.Is(t, advise(t.Context(), fmt.Errorf("read: %w", show.ErrUnknown)), show.ErrUnknown)
}
