package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
//
// All are the real ones, but for Slack, the provider, and where people's decisions are stored: NATS has a time of its own.
type world struct {
	t        *testing.T
	provider http.RoundTripper
	a        *analyzer.Analyzer
	out      analyzer.Output
	e        *engine.Engine
	stop     func() // of e
	tallies  []analyzer.Tally
	store    *alertstest.Store
	choices  *engine.Decisions
	slack    *slack.Server

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
	w.stop = must.Run(w.t, w.e.Run)
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

// Notify keeps what g shows of its problem. Slack never waits for that, so it takes a while.
func (w *world) Notify(_ context.Context, g alerts.Group) error {
	time.Sleep(100 * time.Millisecond)
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
	w.change(w.first(service).Key, func(p *alerts.Problem) { p.Decide(d, alerts.Decision{By: "Anna", At: time.Now()}, "", 0) })
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
	if len(w.out.Tallies) == 0 {
		w.out.Reset()
		return
	}
	w.mu.Lock() // messages follow the alerts that they are about
	for _, t := range w.out.Tallies {
		must.Do(w.t, w.e.Add(w.t.Context(), &t))
	}
	w.log.firing(w.e.Active())
	w.mu.Unlock()
	synctest.Wait()
	w.tallies = append(w.tallies, w.out.Tallies...)
	w.out.Reset()
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
		w.failed()
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
