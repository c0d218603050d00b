package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	notifier "github.com/llmtap/llmtap/alerts/slack"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// local answers requests without a network, so that time may be synthetic.
type local struct{ http.Handler }

func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	l.ServeHTTP(w, r)
	return w.Result(), nil
}

// A world is agents and what watches them, in synthetic time:
//
//	agents ── RoundTrip ──> provider
//	              └─ events ─> analyzer ─ tallies ─> engine with the shipped rules ─> slack notifier ─> slack
type world struct {
	t        *testing.T
	provider http.RoundTripper
	a        *analyzer.Analyzer
	out      analyzer.Output
	e        *engine.Engine
	stop     func() // of e
	store    *alertstest.Store
	choices  *engine.Decisions
	slack    *slack.Server

	tallies []analyzer.Tally

	seq    map[string]uint64 // last event of the process of each service and version
	total  uint64            // events
	tasks  map[string]int    // by service
	labels event.Labels
	mangle func(body []byte) []byte // what the agent does to a request; nil: nothing

	mu       sync.Mutex // guards the rest
	problems map[string]alerts.Problem
	log      timeline
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, provider: local{provider.New(provider.Config{Seed: 1})}, a: analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry()),
		store: &alertstest.Store{}, choices: engine.NewDecisions(), seq: map[string]uint64{}, tasks: map[string]int{}, problems: map[string]alerts.Problem{},
	}
	must.Do(t, w.choices.Replace(nil))
	w.slack = slack.New(slack.Config{OnPost: w.posted})
	w.start()
	return w
}

// start starts the engine, for the first time or with what the last one has stored.
func (w *world) start() {
	cfg := engine.Default()
	cfg.EvaluationInterval = 10 * time.Second
	files := must.Get(filepath.Glob("../../../../../alerts/rules/*.yaml"))(w.t)
	cfg.RuleFiles = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "watchdog.yaml") }) // which people never see
	list := must.Get(notifier.Config{Token: "xoxb-1", Channel: "#alerts", APIURL: "http://127.0.0.1/api"}.Receivers(alerts.NotifierOptions{
		Store: w.store, Access: alerts.Access{ExternalURL: "https://llmtap.test"}, GroupBy: cfg.GroupBy, Problem: w.find, Client: &http.Client{Transport: local{w.slack}},
	}))(w.t)
	w.e = enginetest.New(w.t, cfg, engine.Options{Notifiers: []alerts.Notifier{w, list[0].Notifier}, Store: w.store, Decisions: w.choices})
	w.stop = alertstest.Run(w.t, w.e.Run)
}

// restart replaces engine and notifier. The new engine reads the tallies of the last hour again.
func (w *world) restart() {
	w.stop()
	must.Do(w.t, w.e.Close())
	w.start()
	for _, t := range w.tallies {
		if time.Since(time.Unix(t.Second, 0)) < time.Hour {
			must.Do(w.t, w.e.Add(w.t.Context(), &t))
		}
	}
	w.wait(0)
}

// Pace implements alerts.Paced as the problems of a collector do.
func (w *world) Pace() alerts.Pace { return alerts.Pace{Muted: true, Numbers: time.Second} }

// Notify keeps what g shows of its problem.
func (w *world) Notify(_ context.Context, g alerts.Group) error {
	if g.Problem() != "" {
		w.change(g.Key, func(p *alerts.Problem) { p.Observe(&g) })
	}
	return nil
}

func (w *world) find(key string) (alerts.Problem, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.problems[key]
	return p, ok
}

func (w *world) change(key string, edit func(p *alerts.Problem)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.problems[key]
	old := p
	edit(&p)
	w.problems[key] = p
	if old.Assignee != p.Assignee || (old.Resolved == nil) != (p.Resolved == nil) || (old.Regressed == nil) != (p.Regressed == nil) {
		w.choices.Touch(key)
	}
}

// decide lets Anna decide about the problem of a service that was seen first.
func (w *world) decide(service string, d alerts.ProblemDecision) {
	w.t.Helper()
	must.Do(w.t, d.Validate())
	w.note("Anna: %s %s", d.Action, d.Comment())
	w.change(w.first(service).Key, func(p *alerts.Problem) { p.Decide(d, alerts.Decision{By: "Anna", At: time.Now()}, "") })
	w.wait(0)
}

func (w *world) acknowledge(service string) {
	w.t.Helper()
	w.note("Anna: acknowledge")
	key := w.first(service).Key
	for _, g := range w.e.Groups() {
		if g.Key == key {
			ack := engine.StoredAck{Ack: alerts.Ack{Group: key, Incident: g.Since(), By: anna, At: time.Now()}}
			must.Do(w.t, w.choices.Put(engine.AckStoreKey(key), must.Get(json.Marshal(ack))(w.t)))
		}
	}
	w.wait(0)
}

// anna is an id in Slack.
const anna = "U0ANNA"

// first returns the problem of a service that was seen first.
func (w *world) first(service string) alerts.Problem {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []alerts.Problem
	for _, p := range w.problems {
		if p.Service == service {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		w.t.Fatalf("%s has no problem:\n%s", service, w.log.text())
	}
	return slices.MinFunc(list, func(a, b alerts.Problem) int {
		return 2*a.FirstSeen.Compare(b.FirstSeen) + strings.Compare(a.Key, b.Key)
	})
}

// wait lets time pass without calls.
func (w *world) wait(d time.Duration) {
	for end := time.Now().Add(d); ; {
		synctest.Wait()
		w.a.Advance(time.Now(), true, &w.out)
		w.feed()
		rest := time.Until(end)
		if rest <= 0 {
			return
		}
		time.Sleep(min(rest, time.Second))
	}
}

// feed gives the tallies to the engine.
func (w *world) feed() {
	for _, t := range w.out.Tallies {
		must.Do(w.t, w.e.Add(w.t.Context(), &t))
	}
	w.tallies = append(w.tallies, w.out.Tallies...)
	w.out.Reset()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log.firing(w.e.Active())
}

func (w *world) event(ev *event.Event) {
	process := w.labels.Service + " " + w.labels.ServiceVersion
	w.seq[process]++
	w.total++
	ev.Time, ev.Labels, ev.Instance, ev.Seq, ev.Origin = time.Now(), w.labels, process, w.seq[process], event.OriginHook
	ev.Capture, ev.Part, ev.Parts, ev.BodyBytes = event.CaptureFull, 1, 1, len(ev.Body)
	w.a.Process(ev, analyzer.Position{Seq: w.total, Time: time.Now()}, true, &w.out)
	w.feed()
}

// RoundTrip calls the provider, which takes 300 ms, and publishes both halves as a hook does.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	body := must.Get(io.ReadAll(r.Body))(w.t)
	if w.mangle != nil {
		body = w.mangle(body)
	}
	id := fmt.Sprintf("018f0000-0000-7000-8000-%012d", w.total)
	w.event(&event.Event{Kind: event.Request, Exchange: id, URL: r.URL.String(), Method: r.Method, Body: body})
	r.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := w.provider.RoundTrip(r)
	must.Do(w.t, err)
	answer := must.Get(io.ReadAll(resp.Body))(w.t)
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	w.wait(300 * time.Millisecond)
	if resp.StatusCode != http.StatusOK {
		w.log.fail()
	}
	w.event(&event.Event{
		Kind: event.Response, Exchange: id, Status: resp.StatusCode, Duration: 300 * time.Millisecond, ContentType: resp.Header.Get("Content-Type"), Body: answer,
	})
	return resp, nil
}

// A program is a service and what is true of it besides its histories.
type program struct {
	service
	run    string                   // status of runs that failed; "": it reports no runs
	mangle func(body []byte) []byte // of the broken version; nil: nothing
	goesOn bool                     // with the next conversation, after one has failed
}

// work lets the programs work for d, one task each every 15 s, in a version that has the bugs or not.
func (w *world) work(d time.Duration, version string, broken bool, programs ...program) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		next := time.Now().Add(15 * time.Second)
		for _, p := range programs {
			w.task(p, version, broken)
		}
		w.wait(time.Until(next))
	}
}

func (w *world) task(p program, version string, broken bool) {
	i := w.tasks[p.name]
	w.tasks[p.name]++
	id := fmt.Sprintf("%s-%04d", p.name, i)
	_, stages := p.task(i, id, rand.New(rand.NewPCG(1, uint64(i))))
	w.labels = event.Labels{Service: p.name, ServiceVersion: version, Environment: "prod", Agent: p.name, Run: id}
	if w.mangle = nil; broken {
		w.mangle = p.mangle
	}
	run := func(status string) {
		if p.run != "" {
			w.event(&event.Event{Kind: event.Run, RunStatus: status})
		}
	}
	agent := newAgent(p.name, version, p.model, "http://127.0.0.1"+p.path, w, &tally{calls: map[StageCount]int{}}, slog.New(slog.DiscardHandler))
	run("started")
	status := "ok"
	for _, c := range stages {
		if !broken {
			c.saver = healthy
		}
		w.labels.Stage, w.labels.Conversation = c.stage, id+"-"+c.stage
		c.id = w.labels.Conversation
		if agent.converse(w.t.Context(), c) {
			continue
		}
		if status = p.run; !p.goesOn {
			break
		}
	}
	run(status)
}

// one returns a service with one conversation per task.
func one(name, path, model string, c func(i int) conversation) service {
	return service{name: name, path: path, model: model, task: func(i int, _ string, _ *rand.Rand) (int, []conversation) { return 0, []conversation{c(i)} }}
}

// repliesToTwo is incident 1: calls beyond the second get no reply.
func repliesToTwo() saver {
	s := healthy
	s.replies = func(history []message, m message, run func(toolCall) string) []message {
		m.ToolCalls = m.ToolCalls[:min(2, len(m.ToolCalls))]
		return healthy.replies(history, m, run)
	}
	return s
}

// loadsReplies is the second defect of incident 3: the history comes from a database that has replies, but not their calls.
func loadsReplies() saver {
	s := healthy
	s.compact = func(history []message) []message {
		if len(history) > 2 {
			return history
		}
		return []message{history[0], text("user", "What is new in Python?"), reply("function-call-1", "Python 3.14 is out"), history[1]}
	}
	return s
}

// argumentsAsObject is the first defect of incident 3: arguments are sent as they are stored.
func argumentsAsObject(body []byte) []byte {
	return arguments.ReplaceAllFunc(body, func(m []byte) []byte {
		var object string
		_ = json.Unmarshal(arguments.FindSubmatch(m)[1], &object)
		return []byte(`"arguments":` + object)
	})
}

var arguments = regexp.MustCompile(`"arguments":("(?:[^"\\]|\\.)*")`)

// incidents are the five programs of deploy/examples/python as agents of the demo's fleet.
var incidents = []program{
	{run: "ok", service: one("incident-0", provider.DeepSeekPath, "deepseek-chat", func(int) conversation {
		return conversation{stage: planner, user: todo("Change the port", 2, "read_file", "write_file"), tools: []string{"read_file", "write_file"}, saver: dropsToolCalls()}
	})},
	{run: "error", service: one("incident-1", provider.OpenAIPath, "gpt-5-mini", func(i int) conversation {
		return conversation{stage: "assistant", user: todo(fmt.Sprint("Look around ", i), 6, "bash"), tools: []string{"bash"}, saver: repliesToTwo()}
	})},
	{run: "error", service: one("incident-2", provider.QwenPath, "qwen-plus", func(int) conversation {
		return conversation{stage: "extractor", user: todo("Extract every entity", 10, "extract"), tools: []string{"extract"}, saver: keepsLast()}
	})},
	{run: "error", goesOn: true, mangle: argumentsAsObject, service: service{
		name: "incident-3", path: provider.GeminiPath, model: "gemini-2.5-flash", task: func(int, string, *rand.Rand) (int, []conversation) {
			return 0, []conversation{
				{stage: "orchestrator", user: todo("What is new in Python?", 1, "web_search"), tools: []string{"web_search"}, saver: healthy},
				{stage: "orchestrator", user: "And when is the next release?", tools: []string{"web_search"}, saver: loadsReplies()},
			}
		},
	}},
	{run: "error", service: one("incident-4", provider.DeepSeekPath, "deepseek-chat", func(i int) conversation {
		trip := []string{toolNotify, toolRefund}[i%2]
		return conversation{stage: "travel", user: todo("I go to Rome", 2, "weather", trip), tools: []string{"weather", toolNotify, toolRefund}, saver: twoNodes(true)}
	})},
}

// demo is the fleet of the demo.
var demo = []program{{service: checkout}, {service: research}, {service: support}}

// The life of a problem in Slack, from the first failure to the end of its regression. The golden files are what the on-call
// person gets of the demo's defects and of each incident.
func TestTimelines(t *testing.T) {
	slowtest.Skip(t)
	f := func(name, service string, programs ...program) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.life(service, programs...)
				w.stop()
				alertstest.Golden(t, "timelines/"+name+".txt", w.log.text())
			})
		})
	}
	f("demo", checkout.name, demo...)
	for i, p := range incidents {
		f(fmt.Sprint("incident_", i), p.name, p)
	}
}

func (w *world) life(service string, programs ...program) {
	w.work(time.Hour, "2.3.9", false, programs...)
	w.note("2.4.0 is rolled out: it has the bugs")
	w.work(12*time.Minute, "2.4.0", true, programs...)
	w.acknowledge(service)
	w.decide(service, alerts.ProblemDecision{Action: alerts.ActionAssign, Assignee: anna})
	w.work(8*time.Minute, "2.4.0", true, programs...)
	w.note("2.4.1 is rolled out: it has no bugs")
	w.work(2*time.Minute, "2.4.1", false, programs...)
	w.decide(service, alerts.ProblemDecision{Action: alerts.ActionResolve, Version: "2.4.1"})
	w.work(65*time.Minute, "2.4.1", false, programs...)
	w.note("2.4.2 is rolled out: the bugs are back")
	w.work(15*time.Minute, "2.4.2", true, programs...)
	w.note("2.4.3 is rolled out: it has no bugs")
	w.work(40*time.Minute, "2.4.3", false, programs...)
}

// interleaves writes a reminder between a call and its reply.
func interleaves() saver {
	s := healthy
	s.answer = func(history []message, m message) []message {
		if len(m.ToolCalls) == 0 {
			return append(history, m)
		}
		return append(history, m, text("user", "Reminder: answer in one sentence."))
	}
	return s
}

// renames gives replies the name of the tool as their id.
func renames() saver {
	s := healthy
	s.replies = func(history []message, m message, run func(toolCall) string) []message {
		for _, c := range m.ToolCalls {
			history = append(history, reply(c.Function.Name, run(c)))
		}
		return history
	}
	return s
}

// Eight defects of seven stages, which several rules find each, are eight messages from their first failure to their end, also
// if the engine restarts while they fail and afterwards.
func TestEightDefects(t *testing.T) {
	slowtest.Skip(t)
	calls := func(s saver) func(i int) conversation {
		return func(i int) conversation {
			return conversation{stage: executor, user: todo(fmt.Sprint("Look around ", i), 2, "look"), tools: []string{"look"}, saver: s}
		}
	}
	programs := append(slices.Clone(incidents),
		program{service: one("interleaver", provider.OpenAIPath, "gpt-5-mini", calls(interleaves()))},
		program{service: one("renamer", provider.OpenAIPath, "gpt-5-mini", calls(renames()))})
	programs[3] = program{mangle: argumentsAsObject, service: one("incident-3", provider.GeminiPath, "gemini-2.5-flash", calls(healthy))}
	for i := range programs {
		programs[i].run = "ok" // each hides its failures
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		check := func(when, says string) {
			t.Helper()
			tops := slices.DeleteFunc(w.slack.Messages(), func(m slack.Message) bool { return m.ThreadTS != "" })
			for _, m := range tops {
				if !strings.Contains(m.Text, says) {
					t.Errorf("%s, a message says %q", when, m.Text)
				}
			}
			if len(tops) != 8 || t.Failed() {
				t.Fatalf("%s: %d messages\n%s", when, len(tops), w.log.text())
			}
		}
		w.work(10*time.Minute, "1", false, programs...)
		for i := range programs { // one after the other
			w.work(2*time.Minute, "2", true, programs[:i+1]...)
		}
		w.work(10*time.Minute, "2", true, programs...)
		check("while they fail", ": ")
		w.restart()
		w.work(2*time.Minute, "2", true, programs...)
		check("after a restart", ": ")
		w.work(30*time.Minute, "3", false, programs...)
		check("at the end", "RESOLVED")
		w.restart()
		w.work(10*time.Minute, "3", false, programs...)
		check("after a restart at the end", "RESOLVED")
		for _, p := range w.problems {
			if len(p.Rules) < 2 && p.Service != "incident-4" { // whose stage has two, with a rule each
				t.Errorf("%s of %s was found by %v only", p.Cause, p.Service, p.Rules)
			}
		}
		w.stop()
	})
}

// A timeline is what happens in Slack, as text.
type timeline struct {
	began    time.Time // the first failure; zero before
	lines    strings.Builder
	active   map[string]bool
	messages []*shown

	replies, mentions, edits int
}

// shown is a message as people see it, without the collapsed details.
type shown struct {
	ts      string
	lines   []string
	numbers int // edits since the last line about the message that changed only numbers
}

func (l *timeline) fail() {
	if l.began.IsZero() {
		l.began = time.Now()
		l.add("first failure")
	}
}

func (l *timeline) add(format string, args ...any) {
	at := "before"
	if !l.began.IsZero() {
		at = "+" + time.Since(l.began).Round(time.Second).String()
	}
	fmt.Fprintf(&l.lines, "%-9s %s\n", at, fmt.Sprintf(format, args...))
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log.add("── "+format, args...)
}

func (l *timeline) quote(mark string, lines ...string) {
	for _, line := range lines {
		fmt.Fprintf(&l.lines, "%10s%s %s\n", "", mark, line)
	}
}

// firing adds the alerts that fire since the last call, and those that do not any more.
func (l *timeline) firing(list []alerts.Alert) {
	now := map[string]bool{}
	for _, a := range list {
		now[fmt.Sprintf("%s %s of %s/%s about %s", a.Severity(), a.Name, a.Labels["service"], a.Labels["stage"], a.Problem)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if !l.active[name] {
			l.add("fires: %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.active)) {
		if !now[name] {
			l.add("ends:  %s", name)
		}
	}
	l.active = now
}

// posted is called for every message and every edit.
func (w *world) posted(m slack.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &w.log
	text, _, _ := strings.Cut(slack.Text(m), "\n▸ ")
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.Trim(line, "═") == "" })
	if strings.Contains(m.Text, "<@") && m.Updates == 0 {
		l.mentions++
	}
	ts := m.TS
	if m.ThreadTS != "" {
		ts = m.ThreadTS
	}
	i := slices.IndexFunc(l.messages, func(s *shown) bool { return s.ts == ts })
	if i < 0 {
		l.messages = append(l.messages, &shown{ts: ts, lines: lines})
		l.add("MESSAGE %d", len(l.messages))
		l.quote("│", lines...)
		return
	}
	s := l.messages[i]
	if m.ThreadTS != "" {
		l.replies++
		l.rest(i)
		l.add("thread of %d", i+1)
		l.quote("└", lines...)
		return
	}
	l.edits++
	gone, come := differ(s.lines, lines), differ(lines, s.lines)
	s.lines = lines
	if len(gone)+len(come) == 0 {
		s.numbers++
		return
	}
	l.rest(i)
	l.add("edit of %d", i+1)
	l.quote("-", gone...)
	l.quote("+", come...)
}

// rest adds a line about the edits of a message that changed only numbers.
func (l *timeline) rest(i int) {
	if s := l.messages[i]; s.numbers > 0 {
		l.add("edit of %d, %d times: only numbers", i+1, s.numbers)
		s.numbers = 0
	}
}

var number = regexp.MustCompile(`( \([0-9]+ min\))|[0-9]+`)

// differ returns the lines of a that b lacks, numbers aside.
func differ(a, b []string) (out []string) {
	kind := func(line string) string { return number.ReplaceAllString(line, "") }
	for _, line := range a {
		if !slices.ContainsFunc(b, func(other string) bool { return kind(other) == kind(line) }) {
			out = append(out, line)
		}
	}
	return out
}

// text returns the timeline and the number of notifications.
func (l *timeline) text() string {
	for i := range l.messages {
		l.rest(i)
	}
	return fmt.Sprintf("%s\nNotifications: %d (messages: %d, lines in threads: %d), of which %d mention somebody. Edits, which notify nobody: %d.\n",
		&l.lines, len(l.messages)+l.replies, len(l.messages), l.replies, l.mentions, l.edits)
}
