package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// An agent is a coding agent: the official client with a connection to a server.
type agent struct {
	t       *testing.T
	session *mcp.ClientSession
}

func newAgent(t *testing.T, transport mcp.Transport) agent {
	t.Helper()
	session := must.Get(mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil))(t)
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("close the session: %v", err)
		}
	})
	return agent{t, session}
}

// commandAgent returns an agent that runs llmtap mcp.
func commandAgent(t *testing.T, args ...string) agent {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], append([]string{"mcp"}, args...)...)
	cmd.Stderr = t.Output()
	return newAgent(t, &mcp.CommandTransport{Command: cmd})
}

// call calls a tool, decodes the structured answer into data, unless it is nil, and returns the text.
func (a agent) call(tool string, arguments, data any) string {
	a.t.Helper()
	res, err := a.session.CallTool(a.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	sent, _ := json.Marshal(arguments)
	text := res.Content[0].(*mcp.TextContent).Text
	a.t.Logf("> %s %s\n%s\n", tool, sent, text)
	if res.IsError {
		a.t.Fatalf("%s %s: %s", tool, sent, text)
	}
	if len(text) > 8000 {
		a.t.Errorf("%s: an answer of %d bytes", tool, len(text))
	}
	if data != nil {
		raw, err := json.Marshal(res.StructuredContent)
		if err == nil {
			err = json.Unmarshal(raw, data)
		}
		must.Do(a.t, err)
	}
	return text
}

// nextCall is the call that an answer names.
type nextCall struct {
	Tool      string
	Arguments map[string]any
}

// A coding agent is asked why the planner fails. The arguments of each call are from the answer before.
func TestMCP(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	needClickHouse(t)
	d := startDemo(t)
	d.printed(`press the buttons of the Slack message: (http://\S+)`)
	t.Run("stdio", func(t *testing.T) { tour(t, commandAgent(t, "--data-dir", d.dir)) })
	t.Run("content", func(t *testing.T) {
		testContent(t, commandAgent(t, "--data-dir", d.dir), commandAgent(t, "--data-dir", d.dir, "--content"))
	})
	t.Run("HTTP", func(t *testing.T) {
		r := running(t, d.dir)
		for _, base := range []string{"http://" + r.HTTPAddr, strings.TrimSuffix(d.fleet, "/")} { // also beside the pages
			tour(t, newAgent(t, &mcp.StreamableClientTransport{Endpoint: base + "/mcp", DisableStandaloneSSE: true}))
		}
		testContent(t, newAgent(t, &mcp.StreamableClientTransport{Endpoint: "http://" + r.HTTPAddr + "/mcp"}),
			newAgent(t, &mcp.StreamableClientTransport{Endpoint: "http://" + r.HTTPAddr + "/mcp?content=true"}))
	})
}

// tour walks from the question to the message, the version and the fix.
func tour(t *testing.T, a agent) {
	t.Helper()
	a.t = t
	var wrong struct {
		Failures []struct {
			Service, Stage string
			Next           nextCall
		}
	}
	a.call("whats_wrong", map[string]any{"since": "15 minutes"}, &wrong)
	var next nextCall
	for _, f := range wrong.Failures {
		if f.Stage == "planner" && next.Tool == "" {
			next = f.Next
		}
	}
	if next.Tool != "incident" {
		t.Fatalf("no failure of the planner: %+v", wrong)
	}
	var incident struct {
		Hit          int
		FirstVersion string `json:"first_version"`
		LastClean    string `json:"last_clean_version"`
		Fix          string
		Proofs       []struct {
			Exchange string `json:"exchange_id"`
			Message  int    `json:"message_index"`
			Next     nextCall
		}
		Conversations []string `json:"conversation_ids"`
	}
	a.call(next.Tool, next.Arguments, &incident)
	if incident.FirstVersion != "2.4.0" || incident.LastClean != "2.3.9" || !strings.Contains(incident.Fix, "tool_calls") || incident.Hit < 50 || len(incident.Proofs) == 0 {
		t.Fatalf("incident %+v", incident)
	}
	proof := incident.Proofs[0]
	text := a.call(proof.Next.Tool, proof.Next.Arguments, nil)
	wantAll(t, "show", text, "call "+proof.Exchange+"\n", fmt.Sprintf("  > %3d tool", proof.Message), "first seen in 2.4.0; 2.3.9 made ", incident.Fix, "- tool_calls[0].function.name")
	must.Contain(t, a.call("show", map[string]any{"id": incident.Conversations[0]}, nil), fmt.Sprintf("  > %3d tool", proof.Message), "the conversation does not mark the message")
	a.call("query", map[string]any{"name": "conversations_hit", "parameters": map[string]any{"since": "15 minutes", "cause": "orphan_tool_reply", "limit": 2}}, nil)
	a.call("rules", map[string]any{"id": "tool_calls_dropped_on_save"}, nil)
}

// testContent compares the same exchange without and with texts.
func testContent(t *testing.T, without, with agent) {
	t.Helper()
	without.t, with.t = t, t
	var found struct {
		Rows []struct{ ID, Body string }
	}
	with.call("sql", map[string]any{"sql": `SELECT x.exchange_id AS id, JSONExtractString(m.body, 'content') AS body
		FROM exchanges_final AS x INNER JOIN history_final AS h ON h.conversation_id = x.conversation_id INNER JOIN messages AS m ON m.id = h.message_id
		WHERE x.cause = 'orphan_tool_reply' AND JSONExtractString(m.body, 'role') = 'user' LIMIT 1`}, &found)
	if len(found.Rows) != 1 || len(found.Rows[0].Body) < 20 {
		t.Fatalf("%+v", found)
	}
	row := found.Rows[0]
	show := map[string]any{"id": row.ID}
	first, _, _ := strings.Cut(row.Body, "\n")
	must.Contain(t, with.call("show", show, nil), first)
	text := without.call("show", show, nil)
	if strings.Contains(text, first) || !strings.Contains(text, fmt.Sprintf("user       (%d bytes)", len(row.Body))) || !strings.Contains(text, "Texts are withheld") {
		t.Errorf("the text %q is not withheld", first)
	}
	for tool, arguments := range map[string]any{
		"sql":   map[string]any{"sql": "SELECT body FROM messages LIMIT 1"},
		"query": map[string]any{"name": "messages_with", "parameters": map[string]any{"text": "a"}},
	} {
		if res, err := without.session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments}); err != nil || !res.IsError {
			t.Errorf("%s returns texts: %+v, %v", tool, res, err)
		}
	}
}

// Without a collector, the server serves the tools that need none, and says what to start for the others.
func TestMCPWithoutCollector(t *testing.T) {
	t.Parallel()
	a := commandAgent(t, "--data-dir", t.TempDir())
	must.Contain(t, a.call("lint", map[string]any{"history": `[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"call_1","content":"y"}]`}, nil), "1 would be rejected")
	res, err := a.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whats_wrong"})
	if err != nil || !res.IsError || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "start it with llmtap up") {
		t.Errorf("%+v, %v", res, err)
	}
}

// The server ends when its input ends or it is interrupted, without an error and without output.
func TestMCPEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(cmd *exec.Cmd, stdin interface{ Close() error }) error{
		"end of input": func(_ *exec.Cmd, stdin interface{ Close() error }) error { return stdin.Close() },
		"interrupt":    func(cmd *exec.Cmd, _ interface{ Close() error }) error { return cmd.Process.Signal(os.Interrupt) },
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "mcp", "--data-dir", t.TempDir())
		var stdout, stderr lockedBuffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		stdin := must.Get(cmd.StdinPipe())(t)
		must.Do(t, cmd.Start())
		fmt.Fprintln(stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		must.Wait(t, name+": an answer", func() bool { return stdout.String() != "" }, func() any { return stderr.String() })
		must.Do(t, end(cmd, stdin))
		start := time.Now()
		if err := cmd.Wait(); err != nil || time.Since(start) > time.Minute || strings.Count(stdout.String(), "\n") != 1 {
			t.Errorf("%s: %v after %s, output %q, %s", name, err, time.Since(start), stdout.String(), stderr.String())
		}
	}
}
