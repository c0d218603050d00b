package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/alerts/promapi"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/mcpserver"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/tokens"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
	"github.com/llmtap/llmtap/sinks"
)

// Each route that changes something is recorded, and what people do at the API and on the pages is in the table, which only admins
// read, and in the log.
func TestAudit(t *testing.T) {
	collectortest.NeedClickHouse(t)
	t.Parallel()
	var log testnet.Buffer
	cfg := collectortest.Config(t, func(cfg *config.Config) {
		cfg.Roles, cfg.HTTP.Token = []string{config.RoleAlert, config.RoleUI}, "s3cret"
	})
	c := must.Get(Open(t.Context(), cfg, Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Version: "1.2.3"}))(t)
	collectortest.RunReady(t, c)
	api, pages := "http://"+c.httpAddr(), strings.TrimSuffix(c.UIURL(), "/")

	selfNoting := map[string]bool{promapi.Path: true, mcpserver.Path: true, tokens.Path: true, tokens.Path + "/": true}
	for _, routes := range []map[string]access.Action{c.routes(c.guard, c.guard.gate(c.machines)).Audited(), c.ui.pages.Audited()} {
		for pattern, action := range routes {
			if reads := strings.HasPrefix(pattern, "GET ") || selfNoting[pattern]; !reads && action == access.Unaudited {
				t.Errorf("%s changes something and is not recorded", pattern)
			}
		}
	}

	viewer := create(t, api, "grafana", "viewer")
	responder := create(t, api, "pager", "responder")
	query := func(token, sql string) (int, string) {
		return ask(t, token, http.MethodPost, api+"/api/query", jsonText(t, map[string]any{"sql": sql, "params": map[string]string{"x": "7"}}))
	}
	must.Wait(t, "the token", func() bool { status, _ := query(viewer, "SELECT {x:UInt8} AS first"); return status == http.StatusOK })
	status, text := query(viewer, "SELECT * FROM audit_final")
	must.Equal(t, status, http.StatusBadRequest, "a viewer reads the audit")
	must.Contain(t, text, "needs the role admin")
	status, _ = ask(t, viewer, http.MethodGet, pages+"/audit", "")
	must.Equal(t, status, http.StatusForbidden, "a viewer opens the page")
	call := func(token, path, tool string, arguments any) string {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, api+path, strings.NewReader(jsonText(t, map[string]any{
			"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments},
		}))))(t)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp := must.Get((&http.Client{Transport: bearer(token)}).Do(r))(t)
		defer resp.Body.Close()
		var b bytes.Buffer
		_, _ = b.ReadFrom(resp.Body)
		return b.String()
	}
	must.Contain(t, call(viewer, mcpserver.Path, "sql", map[string]string{"sql": "SELECT 'of a model'"}), "of a model")
	must.Contain(t, call(viewer, mcpserver.Path, "sql", map[string]string{"sql": "SELECT * FROM audit"}), "needs the role admin")
	call(viewer, mcpserver.Path+"?content=true", "show", map[string]string{"id": "conv-secret"})
	status, _ = ask(t, viewer, http.MethodPost, api+"/api/v2/silences", "{}")
	must.Equal(t, status, http.StatusForbidden, "a viewer silences")
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	silence := `{"matchers":[{"name":"service","value":"shop","isEqual":true}],"startsAt":"2026-01-01T00:00:00Z","endsAt":"` + until + `","createdBy":"x","comment":"c"}`
	must.Wait(t, "the silences", func() bool {
		status, _ := ask(t, responder, http.MethodPost, api+"/api/v2/silences", silence)
		return status == http.StatusOK
	})
	for _, path := range []string{"/explore/sql?sql=" + url.QueryEscape("SELECT 'on a page'"), "/explore/causes?format=csv", "/traffic/calls?format=jsonl", "/search?q=" + url.QueryEscape("a word")} {
		status, text := ask(t, viewer, http.MethodGet, pages+path, "")
		must.Equal(t, status, http.StatusOK, "%s: %s", path, text)
	}
	status, _ = ask(t, "s3cret", http.MethodDelete, api+tokens.Path+"/grafana", "")
	must.Equal(t, status, http.StatusOK, "revoke")

	want := []string{
		"anyone false change_token grafana done api|create, role viewer", "anyone false change_token grafana done api|revoke",
		"token grafana true run_sql  done api|SELECT {x:UInt8} AS first\n-- map[x:7]", "token grafana true run_sql  failed api|SELECT * FROM audit_final",
		"token grafana true run_sql  done mcp|SELECT 'of a model'", "token grafana true run_sql  failed mcp|SELECT * FROM audit", "token grafana true read_texts conv-secret failed mcp|",
		"token grafana true run_sql  done pages|SELECT 'on a page'", "token grafana true export causes done pages|", "token grafana true export calls done pages|",
		"token grafana true read_texts  done pages|search a word", "token grafana true read_audit  refused pages|", "token grafana true change_silence silences refused api|",
		"token pager true change_silence ID done api|service=\"shop\" until " + until,
	}
	var got string
	defer func() {
		if t.Failed() {
			t.Log(got)
		}
	}()
	must.Wait(t, "the rows", func() bool {
		res, err := c.ClickHouse().Query(t.Context(), `SELECT concat(person, ' ', toString(verified), ' ', action, ' ', if(action = 'change_silence' AND outcome = 'done', 'ID', target), ' ',
			outcome, ' ', via, '|', detail) FROM audit_final ORDER BY at`, nil)
		if err != nil {
			return false
		}
		got = ""
		for _, row := range res.Rows {
			got += row[0].(string) + "\n---\n"
		}
		for _, w := range want {
			if !strings.Contains("\n---\n"+got, "\n---\n"+w) {
				return false
			}
		}
		return true
	})
	must.Contain(t, got, "start of 1.2.3 with the roles alert, ui")
	for _, secret := range []string{viewer, responder, "s3cret"} {
		if strings.Contains(got, secret) || strings.Contains(log.String(), secret) {
			t.Error("the audit contains a token")
		}
	}
	var line struct{ Msg, Person, Action, Target, Outcome, Via, Role string }
	found := false
	for text := range strings.Lines(log.String()) {
		must.Do(t, json.Unmarshal([]byte(text), &line))
		found = found || line.Msg == "audit" && line.Person == "token grafana" && line.Action == "read_texts" && line.Target == "conv-secret" && line.Outcome == "failed" && line.Via == "mcp" && line.Role == "viewer"
	}
	if !found {
		t.Errorf("the log has no line about a read:\n%s", log.String())
	}
	status, text = ask(t, "s3cret", http.MethodGet, pages+"/audit?what=change_silence", "")
	must.Equal(t, status, http.StatusOK, "page")
	must.Contain(t, text, "token pager")
	must.Contain(t, text, "service=&#34;shop&#34;")
	if strings.Contains(text, "conv-secret") {
		t.Error("the page ignores its filter")
	}
	status, text = ask(t, "s3cret", http.MethodGet, pages+"/audit?format=csv&target=conv-secret", "")
	must.Equal(t, status, http.StatusOK, "CSV")
	must.Equal(t, strings.Count(text, "\n"), 2, "lines of %s", text)
}

// Nobody waits while ClickHouse does not answer: the log has all records, and those that are lost are counted.
func TestAuditWithoutStore(t *testing.T) {
	t.Parallel()
	var log testnet.Buffer
	a := newAudit(slog.New(slog.NewTextHandler(&log, nil)), true, prometheus.NewRegistry())
	c := open(t, func(cfg *config.Config) { cfg.ClickHouse.DSN = "http://127.0.0.1:1/llmtap" })
	defer c.Close()
	cfg := sinks.DefaultBatcherConfig()
	cfg.MaxRows, cfg.DrainTimeout = 10, time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.run(ctx, sinks.NewBatcher(c.store, cfg, testLogger(), nil)) })
	const n = auditQueue + 500
	for range n {
		a.record(access.Record{Action: access.ReadTexts}.Complete(time.Now()))
	}
	if lost := testutil.ToFloat64(a.dropped); lost < n-auditQueue-3*10 {
		t.Errorf("%v of %d records are lost", lost, n)
	}
	must.Equal(t, strings.Count(log.String(), "msg=audit "), n, "lines of the log")
	must.Equal(t, strings.Count(log.String(), "records of the audit are only in the log"), 1, "messages")
	cancel()
	running.Wait()
}

func jsonText(t *testing.T, v any) string { return string(must.Get(json.Marshal(v))(t)) }
