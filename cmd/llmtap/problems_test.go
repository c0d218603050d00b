package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

const anyCode = -1 // command accepts each exit code

// command runs llmtap for the collector u and returns its output.
func (c *alertCluster) command(t *testing.T, u *upProcess, code int, args ...string) string {
	t.Helper()
	env := map[string]string{"LLMTAP_URL": "http://" + running(t, u.dir).HTTPAddr, "USER": "anna", "COLUMNS": "80"}
	var out, complaint strings.Builder
	err := run(t.Context(), args, nil, &out, &complaint, func(k string) string { return env[k] })
	if got := command.Report(err, &complaint); got != code && code != anyCode {
		t.Errorf("%s: exit code %d, want %d: %s%s", args, got, code, &out, &complaint)
	}
	return out.String() + complaint.String()
}

// problem waits until u lists a problem of a service in a state.
func (c *alertCluster) problem(t *testing.T, u *upProcess, service, state string) problems.Problem {
	t.Helper()
	var list []problems.Problem
	must.Wait(t, "a problem that is "+state, func() bool {
		must.Do(t, json.Unmarshal([]byte(c.command(t, u, 0, "problems", "list", "--all", "--service", service, "--format", "json")), &list))
		return len(list) == 1 && list[0].State == state
	}, func() any { return fmt.Sprintf("%+v\n%s", list, c.leader.stderr.String()) })
	return list[0]
}

// gone waits until the message about a service lacks a text.
func (c *alertCluster) gone(t *testing.T, service, text string) {
	t.Helper()
	blocks := func() string { return string(c.message(t, service, "").Blocks) }
	must.Wait(t, fmt.Sprintf("the message without %q", text), func() bool { return !strings.Contains(blocks(), text) }, func() any { return blocks() })
}

// The life of a problem over two processes and without ClickHouse. The process that notifies is killed with SIGKILL between two
// steps; what people have decided is not lost, and there is one message.
func TestProblemsLife(t *testing.T) {
	slowtest.Skip(t)
	c := newAlertCluster(t)
	c.leader = startUp(t, c.flags...)
	c.tally(t)
	await(t, c.leader, "took the lease", 0)
	other := c.standby(t)
	killLeader := func() {
		t.Helper()
		c.leader.kill(t)
		c.leader = other
		other = c.standby(t)
	}
	const service = "checkout"
	ask := func(code int, args ...string) string {
		t.Helper()
		return c.command(t, other, code, append([]string{"problems"}, args...)...)
	}
	check := func(text, pattern string) {
		t.Helper()
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("no %s in\n%s", pattern, text)
		}
		narrow(t, pattern, text)
	}
	check(ask(0), `^No open problems\.\n$`)

	c.fail(service)
	p := c.problem(t, other, service, alerts.ProblemNew)
	id := p.ID[:8]
	c.message(t, service, "")
	check(ask(0), `^1 open problem: 1 new\.\n\n`+id+`  new  (warning|critical)  checkout/planner \(prod\)\n  \S.*\n  first seen .* ago, last .* ago, in 1\n$`)
	check(ask(0, "assign", id, "bob", "--note", "wrote it"), `(?s)^Problem `+id+` of checkout/planner \(prod\) is assigned to bob\.\nUndo it with: llmtap problems assign `+id+` nobody\n$`)
	c.message(t, service, "Assigned to bob")

	killLeader()
	if p := c.problem(t, other, service, alerts.ProblemNew); p.Assignee != "bob" {
		t.Errorf("the assignment is lost: %+v", p)
	}
	check(ask(0, "resolve", id, "--fixed-in", "2"), `is resolved, fixed in 2\. A failure`)
	c.message(t, service, "Fixed in")
	check(ask(0), `^No open problems\. 1 resolved or ignored problem is not listed: llmtap problems\s+list --all\n$`)

	killLeader()
	p = c.problem(t, other, service, alerts.ProblemResolved) // although version 1 still fails
	if p.Resolved.Version != "2" || !p.Firing {
		t.Errorf("%+v", p)
	}
	c.fails(service, "2")
	p = c.problem(t, other, service, alerts.ProblemRegressed)
	if p.Regressed.Version != "2" || p.Regressed.Fixed.Version != "2" {
		t.Errorf("%+v", p.Regressed)
	}
	c.message(t, service, "*Regressed:*")
	check(ask(0), `^1 open problem: 1 regressed\.\n`)
	check(ask(0, "ignore", id, "--for", "2h"), `is ignored until`)
	c.message(t, service, "Silenced by anna")

	killLeader()
	p = c.problem(t, other, service, alerts.ProblemIgnored)
	if list := c.command(t, other, 0, "alerts", "silence", "list"); !strings.Contains(list, p.Ignored.SilenceID) || !strings.Contains(list, `problem="orphan_tool_reply"`) {
		t.Error(list)
	}
	check(ask(0, "reopen", id), `is open again: `)
	c.problem(t, other, service, alerts.ProblemNew)
	if list := c.command(t, other, 0, "alerts", "silence", "list"); list != "no silences\n" {
		t.Error(list)
	}
	c.gone(t, service, "Silenced by")
	messages, thread := c.about(service)
	for i, line := range thread {
		if slices.Contains(thread[:i], line) {
			t.Errorf("the thread repeats %q", line)
		}
	}
	if messages != 1 {
		t.Errorf("%d messages", messages)
	}
	shown := ask(0, "show", id[:4])
	t.Logf("%s\n%q", shown, thread)
	check(shown, `(?s)^checkout/planner \(prod\)  new  critical\n\S.*  fix  .*  assigned to  bob, by anna@.*  versions     2, .*\n +1, .*  rules  .*\nHistory\n`)
	check(shown, `(?s)anna@.* assigned it to bob: wrote it\n.*said that it is resolved,\s+fixed in 2\n.*llmtap found a regression:\s+seen again in 2\n.*ignored it until.*\n.*reopened it\n`)
	check(shown, `Incomplete: ClickHouse does not answer; `)
	check(ask(1, "show", "ffff"), `there is no problem ffff; .*llmtap problems list --all lists them`)
	check(ask(2, "show", id[:2]), `too short for an id`)
	check(ask(2, "ignore", id, "--until", "2001-01-01"), `is in the past`)
	check(ask(2, "ignore", id, "--until", "2100-01-01", "--for", "2h"), `exactly one of --for and --until`)
}

// With ClickHouse, the history is read from its rows, which outlive what NATS has.
func TestProblemHistory(t *testing.T) {
	needClickHouse(t)
	const token = "s3cret"
	cfg := collectortest.Config(t, func(cfg *config.Config) { cfg.HTTP.Token = token })
	cfg.Listen = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	runCollector(t, cfg)
	p := alerts.Problem{Key: `auth{service="shop"}`, Service: "shop", Stage: "planner", Cause: "auth", FirstSeen: time.Now(), Severity: "warning", Rules: []string{"NewCause"}}
	conn := collectortest.ConnectNATS(t, running(t, cfg.DataDir).NATSURL, nil)
	kv := must.Get(conn.KV(t.Context(), event.BucketAlerts))(t)
	must.Do(t, kv.Put(t.Context(), "problem."+p.ID(), must.Get(json.Marshal(p))(t)))
	env := map[string]string{"LLMTAP_HTTP_TOKEN": token, "LLMTAP_URL": "http://" + cfg.Listen, "USER": "anna", "COLUMNS": "80"}
	ask := func(code int, args ...string) string {
		t.Helper()
		var out, complaint strings.Builder
		err := run(t.Context(), append([]string{"problems"}, args...), nil, &out, &complaint, func(k string) string { return env[k] })
		if got := command.Report(err, &complaint); got != code {
			t.Errorf("%s: exit code %d, want %d: %s%s", args, got, code, &out, &complaint)
		}
		return out.String() + complaint.String()
	}
	var err error
	must.Wait(t, "the process has read it", func() bool {
		err = run(t.Context(), []string{"problems", "show", p.ID()}, nil, io.Discard, io.Discard, func(k string) string { return env[k] })
		return err == nil
	}, func() any { return err })
	ask(0, "assign", p.ID(), "bob")
	ask(0, "ignore", p.ID()[:8], "--note", "known")
	must.Wait(t, "they are stored", func() bool { return len(must.Get(kv.Values(t.Context(), "action.*"))(t)) == 0 })
	shown := ask(0, "show", p.ID()[:8])
	if !regexp.MustCompile(`\nHistory\n  .* anna@\S+ assigned it to bob\n  .* anna@\S+ ignored it until it is reopened:\s+known\n$`).MatchString(shown) {
		t.Error(shown)
	}
	env["LLMTAP_HTTP_TOKEN"] = "wrong"
	if text := ask(1, "assign", p.ID(), "eve"); !strings.Contains(text, "rejects the token") {
		t.Error(text)
	}
}
