package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/analyzer"
	protocol "github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

const (
	orphanText  = `Messages with role 'tool' must be a response to a preceding message with 'tool_calls'`
	missingText = `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)`
)

type msg map[string]any

var (
	question = msg{"role": "user", "content": "Read config.py."}
	calling  = msg{"role": "assistant", "content": nil, "tool_calls": []msg{
		{"id": "call_1", "type": "function", "function": msg{"name": "read_file", "arguments": `{"path":"config.py"}`}},
	}}
	reply  = msg{"role": "tool", "tool_call_id": "call_1", "content": "PORT=80"}
	done   = msg{"role": "assistant", "content": "The port is 80."}
	orphan = []msg{question, done, reply}
)

// A pipeline is events, the analyzer, its tallies and the engine, in simulated time.
type pipeline struct {
	t          *testing.T
	a          *analyzer.Analyzer
	e          *engine.Engine
	out        analyzer.Output
	now        time.Time
	seq        uint64
	own        map[string]uint64 // last sequence number of the process of each service
	labels     event.Labels
	drops      uint64
	retry      int
	early      bool // tallies are not added to the engine yet
	talks      int
	took       time.Duration // of a call
	usage      [2]int        // input and output tokens of a call
	read       func() int    // tokens that the provider reads from its cache; nil: it does not say
	finish     string        // finish reason of an answer without calls
	answer     msg
	limits     string // what responses say of rate limits
	model      string // that answers
	fired      []string
	severities []string                // of the rules that fired, with their names
	first      map[string]alerts.Alert // first alert of each rule
}

func (p *pipeline) feed() {
	if !p.early {
		for i := range p.out.Tallies {
			t := p.out.Tallies[i]
			must.Do(p.t, p.e.Add(p.t.Context(), &t))
		}
		for _, a := range p.e.Active() {
			if s := a.Name + " " + a.Severity(); !slices.Contains(p.severities, s) {
				p.severities = append(p.severities, s)
			}
			if !slices.Contains(p.fired, a.Name) {
				p.fired, p.first[a.Name] = append(p.fired, a.Name), a
			}
		}
	}
	p.out.Reset()
}

// wait waits without events.
func (p *pipeline) wait(d time.Duration) {
	for end := p.now.Add(d); p.now.Before(end); {
		p.now = p.now.Add(min(20*time.Second, end.Sub(p.now)))
		p.a.Advance(p.now, true, &p.out)
		p.feed()
	}
}

func (p *pipeline) event(ev *event.Event) {
	p.seq++
	p.now = p.now.Add(100 * time.Millisecond)
	p.own[p.labels.Service]++
	ev.Time, ev.Labels, ev.Instance, ev.Seq, ev.Dropped = p.now, p.labels, "of "+p.labels.Service, p.own[p.labels.Service], p.drops
	ev.Origin, ev.Capture, ev.Part, ev.Parts, ev.BodyBytes, ev.Retry = event.OriginHook, event.CaptureFull, 1, 1, len(ev.Body), p.retry
	p.a.Process(ev, analyzer.Position{Seq: p.seq, Time: p.now}, true, &p.out)
	p.feed()
}

func (p *pipeline) body(v any) []byte {
	return must.Get(json.Marshal(v))(p.t)
}

func (p *pipeline) talk() {
	p.talks++
	p.labels.Conversation = fmt.Sprint("talk ", p.talks)
}

func (p *pipeline) request(history ...msg) string {
	id := fmt.Sprintf("018f0000-0000-7000-8000-%012d", p.seq)
	p.event(&event.Event{
		Kind: event.Request, Exchange: id, URL: "https://api.deepseek.com/chat/completions", Method: "POST",
		Body: p.body(msg{"model": "deepseek-chat", "messages": history}),
	})
	return id
}

func (p *pipeline) response(id string, status int, body any) {
	p.event(&event.Event{Kind: event.Response, Exchange: id, Status: status, Duration: p.took, ContentType: "application/json", Body: p.body(body), RateLimits: p.limits})
}

func (p *pipeline) ok(answer msg, history ...msg) {
	finish := p.finish
	if answer["tool_calls"] != nil {
		finish = "tool_calls"
	}
	usage := msg{"prompt_tokens": p.usage[0], "completion_tokens": p.usage[1]}
	if p.read != nil {
		usage["prompt_cache_hit_tokens"] = p.read()
	}
	p.response(p.request(history...), 200, msg{"model": p.model, "choices": []msg{{"index": 0, "message": answer, "finish_reason": finish}}, "usage": usage})
}

func (p *pipeline) fail(status int, text string, history ...msg) {
	p.response(p.request(history...), status, msg{"error": msg{"message": text, "type": "invalid_request_error"}})
}

// beat sends a report of the hook of each service about itself.
func (p *pipeline) beat(status string, services ...string) {
	for _, p.labels.Service = range services {
		p.event(&event.Event{Kind: event.Hook, HookStatus: status})
	}
}

// busy calls models every few seconds in each service, whose hooks send heartbeats if beats.
func (p *pipeline) busy(d time.Duration, beats bool, services ...string) {
	for end := p.now.Add(d); p.now.Before(end); p.wait(30 * time.Second) {
		for range 2 {
			for _, p.labels.Service = range services {
				p.ok(done, question)
			}
		}
		if beats {
			p.beat(event.HookAlive, services...)
		}
	}
}

func (p *pipeline) run(status string) { p.event(&event.Event{Kind: event.Run, RunStatus: status}) }

// many calls fn in n conversations, every apart.
func (p *pipeline) many(n int, apart time.Duration, do func(i int)) {
	for i := range n {
		p.talk()
		do(i)
		p.wait(apart)
	}
}

// hour is an hour without failures.
func (p *pipeline) hour() {
	p.many(120, 30*time.Second, func(int) { p.ok(done, question) })
}

// notified records notifications: Alert.Unavailable by rule.
type notified map[string]string

func (n notified) Notify(_ context.Context, g alerts.Group) error {
	for _, a := range g.Alerts {
		n[a.Name] = a.Unavailable
	}
	return nil
}

// A recorder is the store of alerts; its error means that it is down.
type recorder struct{ err error }

func (r recorder) RecordAlert(context.Context, alerts.Alert) error { return r.err }

// fired returns the JSON of an alert. Package slack renders the files.
func fired(t *testing.T, a alerts.Alert) string {
	t.Helper()
	b := must.Get(json.MarshalIndent(a, "", "  "))(t)
	return string(b) + "\n"
}

const storeIsDown = "ClickHouse does not answer"

// usualHours are the hours after which it is known what is usual.
const usualHours = 8 * 24 * time.Hour

// play plays a script through a new pipeline and returns it, and what people were notified of. If down, the store is down.
func play(t *testing.T, down bool, script func(p *pipeline)) (p *pipeline, sent notified) {
	t.Helper()
	return playAfter(t, nil, down, script)
}

// learnUsual lets an engine with one rule learn hours of usual calls.
func learnUsual(t *testing.T, store *alertstest.Store) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := engine.Default()
		cfg.EvaluationInterval, cfg.RuleFiles = 30*time.Second, []string{"traffic_unusual.yaml"}
		e := enginetest.New(t, cfg, engine.Options{Store: store})
		stop := alertstest.Run(t, e.Run)
		m := new(analyzer.Measured)
		for range 4 {
			m.Duration.Add(1000)
			m.InputTokens.Add(1000)
			m.OutputTokens.Add(100)
			m.Cost.Add(322) // as deepseek-chat costs
		}
		kv := map[string]string{
			"service": "shop", "service_version": "1.4.0", "environment": "prod", "agent": "planner", "stage": "planner", "provider": "deepseek", "model": "deepseek-chat",
		}
		for end := time.Now().Add(usualHours); time.Now().Before(end); {
			time.Sleep(time.Minute)
			must.Do(t, e.Add(t.Context(), &analyzer.Tally{
				Second: time.Now().Unix() - 1, Counts: []analyzer.Count{
					{Metric: analyzer.MetricCalls, Labels: kv, N: 4, Measured: m}, {Metric: analyzer.MetricToolReplies, Labels: kv, N: 4},
				},
			}))
		}
		stop()
	})
}

// playAfter is play with the state of an engine in a Store, or without if it is nil.
func playAfter(t *testing.T, store *alertstest.Store, down bool, script func(p *pipeline)) (p *pipeline, sent notified) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := engine.Default()
		cfg.EvaluationInterval, cfg.Budgets = 5*time.Second, []engine.Budget{{Service: "dear", PerMonth: 0.15}}
		sent = notified{}
		o := engine.Options{Notifiers: []alerts.Notifier{sent}, Recorder: recorder{}}
		if down {
			o.Recorder, o.Unavailable = recorder{errors.New("connection refused")}, func() string { return storeIsDown }
		}
		if store != nil {
			o.Store, cfg.EvaluationInterval = store, 30*time.Second // hours take seconds
		}
		e := enginetest.New(t, cfg, o)
		stop := alertstest.Run(t, e.Run)
		p = &pipeline{
			first: map[string]alerts.Alert{}, t: t, e: e, a: analyzer.New(analyzer.Default(), protocol.InOrder, prometheus.NewRegistry()), now: time.Now(), own: map[string]uint64{},
			took: time.Second, usage: [2]int{1000, 100}, finish: "stop", answer: done, model: "deepseek-chat",
			labels: event.Labels{Service: "shop", ServiceVersion: "1.4.0", Environment: "prod", Agent: "planner", Stage: "planner", Run: "r"},
		}
		script(p)
		p.wait(time.Minute)
		time.Sleep(cfg.UpdateInterval + time.Second) // several rules may find one problem
		synctest.Wait()
		stop()
	})
	return p, sent
}

// Each rule about calls fires on tallies of real events, and does not fire on similar harmless ones. With the store down it fires
// with the same evidence, and reports what is unavailable.
func TestPipeline(t *testing.T) {
	slowtest.Skip(t)
	// of plays with copies of a Store, or without if it is nil.
	of := func(store *alertstest.Store, rule string, fires, near func(p *pipeline)) {
		play := func(t *testing.T, down bool, script func(p *pipeline)) (*pipeline, notified) {
			t.Helper()
			if store == nil {
				return play(t, down, script)
			}
			own := &alertstest.Store{}
			store.CopyTo(own)
			return playAfter(t, own, down, script)
		}
		t.Run(rule, func(t *testing.T) {
			up, sent := play(t, false, fires)
			if unavailable, ok := sent[rule]; !ok || unavailable != "" {
				t.Errorf("%v fired; unavailable: %q", up.fired, unavailable)
			}
			down, sent := play(t, true, fires)
			if unavailable, ok := sent[rule]; !ok || unavailable != storeIsDown {
				t.Errorf("without the store %v fired; unavailable: %q", down.fired, unavailable)
			}
			if diff := cmp.Diff(up.first, down.first, cmpopts.IgnoreFields(alerts.Alert{}, "Unavailable")); diff != "" {
				t.Errorf("fired (-with the store +without)\n%s", diff)
			}
			alertstest.Golden(t, "fired/"+rule+".json", fired(t, up.first[rule]))
			if p, _ := play(t, false, near); slices.Contains(p.fired, rule) {
				t.Error("it fires on harmless events")
			}
		})
	}
	f := func(rule string, fires, near func(p *pipeline)) { of(nil, rule, fires, near) }
	// some of the calls of ten minutes are rejected.
	rejected := func(n int) func(p *pipeline) {
		return func(p *pipeline) {
			p.many(400, 1500*time.Millisecond, func(i int) {
				if i%12 == 0 && i/12 < n {
					p.fail(400, orphanText, orphan...)
				} else {
					p.ok(done, question)
				}
			})
		}
	}
	after := func(scripts ...func(p *pipeline)) func(p *pipeline) {
		return func(p *pipeline) {
			for _, s := range scripts {
				s(p)
			}
		}
	}
	hour := (*pipeline).hour

	f("StageFailureRate", func(p *pipeline) {
		p.many(20, time.Second, func(i int) {
			if i < 7 {
				p.fail(400, orphanText, orphan...)
			} else {
				p.ok(done, question)
			}
		})
	}, func(p *pipeline) {
		p.many(20, time.Second, func(int) { // a retry by an SDK is not a separate call
			p.retry = 1
			p.fail(429, "slow down", question)
			p.retry = 0
			p.ok(done, question)
		})
	})
	f("BadRequestBurst", after(hour, rejected(16)), after(hour, rejected(14)))
	f("NewCause", after(hour, rejected(6)), after(rejected(1), hour, rejected(6)))
	// a canary has every eighth conversation.
	canary := func(fails func(i int, version string) bool) func(p *pipeline) {
		return func(p *pipeline) {
			p.many(900, time.Second, func(i int) {
				p.labels.ServiceVersion = "1.4.0"
				if i > 300 && i%8 == 0 {
					p.labels.ServiceVersion = "1.5.0"
				}
				if i > 300 && fails(i/8, p.labels.ServiceVersion) {
					p.fail(400, orphanText, orphan...)
				} else {
					p.ok(done, question)
				}
			})
		}
	}
	f("VersionRegression", canary(func(i int, version string) bool { return version == "1.5.0" && i%4 > 0 }),
		canary(func(i int, _ string) bool { return i%12 == 0 }))
	latent := func(n int) func(p *pipeline) {
		return func(p *pipeline) {
			p.many(100, time.Second, func(i int) {
				if i < n {
					p.ok(done, orphan...)
				} else {
					p.ok(done, question)
				}
			})
		}
	}
	f("LatentViolations", latent(10), latent(9))
	tightened := func(version string) func(p *pipeline) {
		return func(p *pipeline) {
			p.early = true
			p.many(168, 0, func(int) {
				p.ok(done, orphan...)
				p.now = p.now.Add(time.Hour)
			})
			p.early, p.labels.ServiceVersion = false, version
			p.many(5, 10*time.Second, func(int) { p.fail(400, orphanText, orphan...) })
		}
	}
	f("ProviderTightened", tightened("1.4.0"), tightened("1.5.0"))
	unanswered := func(n int) func(p *pipeline) {
		return func(p *pipeline) {
			p.many(10, time.Second, func(int) {
				p.ok(calling, question)
				p.ok(done, question, calling, reply)
			})
			p.many(n, time.Second, func(int) {
				p.ok(calling, question)
				p.fail(400, missingText, question, calling, msg{"role": "user", "content": "And?"})
			})
		}
	}
	f("MissingToolReplies", unanswered(5), unanswered(4))
	masked := func(status string) func(p *pipeline) {
		return func(p *pipeline) {
			p.many(6, time.Second, func(i int) {
				p.labels.Run = fmt.Sprint("run ", i)
				p.run("started")
				p.fail(400, orphanText, orphan...)
				p.run(status)
			})
			p.wait(time.Minute)
		}
	}
	f("MaskedFailures", masked("ok"), masked("error"))
	again := func(status int, text string) func(p *pipeline) {
		return func(p *pipeline) {
			p.many(4, time.Second, func(int) {
				for range 3 {
					p.fail(status, text, orphan...)
				}
			})
		}
	}
	f("RetryStorm", again(400, orphanText), again(429, "slow down"))
	silent := func(n int) func(p *pipeline) {
		return func(p *pipeline) {
			p.many(n, time.Second, func(int) { p.request(question) })
			p.many(250, 5*time.Second, func(int) { p.ok(done, question) })
		}
	}
	f("ResponsesMissing", silent(10), silent(4))
	outage := func(services ...string) func(p *pipeline) {
		return func(p *pipeline) {
			p.many(20*len(services), time.Second, func(i int) {
				if p.labels.Service = services[i%len(services)]; i%10 < 5 {
					p.fail(503, "The server is overloaded or not ready yet.", question)
				} else {
					p.ok(done, question)
				}
			})
		}
	}
	f("ProviderOutage", outage("shop", "desk", "mail"), outage("shop", "desk"))
	gap := func(lost, dropped uint64) func(p *pipeline) {
		return func(p *pipeline) {
			p.many(3, time.Second, func(int) { p.ok(done, question) })
			p.own["shop"] += lost
			p.drops = dropped
			p.many(60, 2*time.Second, func(int) { p.ok(done, question) })
		}
	}
	f("EventsLost", gap(30, 0), gap(30, 15))
	f("EventsDropped", gap(20, 10), gap(18, 9))
	dear := func(n int) func(p *pipeline) {
		return func(p *pipeline) {
			p.labels.Service, p.usage = "dear", [2]int{100_000, 50_000}
			p.many(n, time.Second, func(int) { p.ok(done, question) })
		}
	}
	f("CostBudget", dear(4), dear(3)) // a call costs 4.9 cents
	// after hours of usual calls, they change.
	usually := &alertstest.Store{}
	learnUsual(t, usually)
	changed := func(rule string, change, near func(p *pipeline)) {
		later := func(change func(p *pipeline)) func(p *pipeline) {
			return func(p *pipeline) {
				p.now = p.now.Add(usualHours + 30*time.Minute)
				p.many(40, 15*time.Second, func(int) { p.ok(done, question) })
				change(p)
			}
		}
		of(usually, rule, later(change), later(near))
	}
	calls := func(n int, change func(p *pipeline)) func(p *pipeline) {
		return func(p *pipeline) {
			was := *p
			p.many(240, 15*time.Second, func(i int) {
				if p.took, p.usage, p.finish, p.answer = was.took, was.usage, was.finish, was.answer; i%n == 0 {
					change(p)
				}
				p.ok(p.answer, question)
			})
		}
	}
	slow := func(p *pipeline) { p.took = 20 * time.Second }
	changed("LatencyUnusual", calls(2, slow), calls(30, slow))
	long := func(p *pipeline) { p.usage[0] *= 10 }
	changed("TokensUnusual", calls(2, long), calls(30, long))
	changed("CostUnusual", calls(2, long), calls(30, long))
	rollout := func(change func(p *pipeline)) func(p *pipeline) {
		return func(p *pipeline) {
			was := *p
			p.many(480, 4*time.Second, func(i int) {
				if p.usage, p.labels.ServiceVersion = was.usage, "1.4.0"; i > 20 && i%2 == 0 {
					p.labels.ServiceVersion = "1.5.0"
					change(p)
				} else if i > 20 && i%20 == 1 {
					long(p) // of both
				}
				p.ok(p.answer, question)
			})
		}
	}
	changed("VersionWorse", rollout(long), rollout(func(*pipeline) {}))
	changed("TrafficUnusual", func(p *pipeline) { p.wait(time.Hour) }, calls(1, func(*pipeline) {}))
	ended := func(finish string) func(p *pipeline) { return func(p *pipeline) { p.finish = finish } }
	changed("AnswersTruncated", calls(2, ended("length")), calls(100, ended("length")))
	changed("Refusals", calls(2, ended("content_filter")), calls(100, ended("content_filter")))
	empty := func(p *pipeline) { p.answer = msg{"role": "assistant", "content": ""} }
	changed("AnswersEmpty", calls(2, empty), calls(100, empty))
	// what remains of 1000 tokens changes by an amount each minute; each minute, most of the limit is filled again.
	remains := func(by int) func(p *pipeline) {
		return func(p *pipeline) {
			p.many(80, 15*time.Second, func(i int) {
				left := 280 + by*(i/4)
				p.limits = fmt.Sprintf("requests=990/1000/60ms tokens=%d/1000/58s", []int{left + 600, left + 400, left + 200, left}[i%4])
				p.ok(done, question)
			})
		}
	}
	f("RateLimitNear", remains(-12), remains(0))
	tools := func(n int) func(p *pipeline) {
		return func(p *pipeline) {
			p.many(240, 15*time.Second, func(i int) {
				replied := reply
				if i%n == 0 {
					replied = msg{"role": "tool", "tool_call_id": reply["tool_call_id"], "content": "Error executing tool lookup: no such order"}
				}
				p.ok(calling, question)
				p.ok(done, question, calling, replied)
			})
		}
	}
	changed("ToolErrors", tools(2), tools(100))
	// turns calls a tool n times in a conversation; text returns its replies.
	turns := func(n int, text func(i int) string) func(p *pipeline) {
		return func(p *pipeline) {
			p.talk()
			history := []msg{question}
			for i := range n {
				id := fmt.Sprint("call_", i)
				said := msg{"role": "assistant", "content": nil, "tool_calls": []msg{{"id": id, "type": "function", "function": msg{"name": "job_status", "arguments": "{}"}}}}
				p.ok(said, history...)
				history = append(history, said, msg{"role": "tool", "tool_call_id": id, "content": text(i)})
			}
			p.ok(done, history...)
		}
	}
	f("AgentLoop", turns(6, func(int) string { return "no such job" }), after(
		turns(4, func(int) string { return "no such job" }),
		turns(20, func(i int) string { return fmt.Sprintf("%d%% done", 5*i) }),
	))
	snapshots := func(n int) func(p *pipeline) {
		return func(p *pipeline) {
			p.model = "deepseek-v3-0324"
			p.many(60, time.Second, func(int) { p.ok(done, question) })
			p.model = "deepseek-v3-0528"
			p.many(n, time.Second, func(int) { p.ok(done, question) })
		}
	}
	f("ModelChanged", snapshots(10), snapshots(9))
	f("CacheBroken", caching(40, 40, func(version string) bool { return version == "1.5.0" }), caching(40, 40, func(string) bool { return false }))
	fleet := []string{"shop", "desk", "mail"}
	f("CollectorBlind", func(p *pipeline) {
		p.busy(15*time.Minute, true, fleet...)
		p.wait(11 * time.Minute)
	}, func(p *pipeline) {
		p.busy(15*time.Minute, true, fleet...)
		for range 20 {
			p.beat(event.HookAlive, fleet...)
			p.wait(time.Minute)
		}
	})
}

// caching returns conversations of four turns with a long system prompt: the first of version 1.4.0, and then as many of 1.5.0. The system
// prompt of versions for which timed is true begins with the time. The provider reads what it has in common with the turn before from its cache.
// Every fifth conversation is compacted.
func caching(before, after int, timed func(version string) bool) func(p *pipeline) {
	return func(p *pipeline) {
		p.many(before+after, time.Second, func(i int) {
			if p.labels.ServiceVersion = "1.4.0"; i >= before {
				p.labels.ServiceVersion = "1.5.0"
			}
			var history []msg
			for turn := range 4 {
				rules := strings.Repeat("Answer in the language of the customer, and name the page of the handbook. ", 200)
				if timed(p.labels.ServiceVersion) {
					rules = "It is " + p.now.Format(time.RFC3339Nano) + ". " + rules
				}
				before, held := history, p.usage[0]
				if history = append(slices.Clone(history), question); i%5 == 4 && turn == 3 {
					history = history[2:]
				}
				p.usage[0] = 4000 + 20*len(history)
				p.read = func() int {
					switch {
					case turn == 0 || timed(p.labels.ServiceVersion):
						return 0
					case len(history) < len(before):
						return 3968
					}
					return held / 64 * 64
				}
				p.ok(p.answer, append([]msg{{"role": "system", "content": rules}}, history...)...)
				history = append(history, p.answer)
			}
		})
	}
}

// A stage that has always missed the cache is a problem of which nobody is notified.
func TestCacheAlwaysBroken(t *testing.T) {
	slowtest.Skip(t)
	p, _ := play(t, false, caching(300, 100, func(string) bool { return true }))
	must.Equal(t, fmt.Sprint(p.severities), "[CacheBroken none]", "alerts")
	must.Equal(t, p.first["CacheBroken"].Problem, "system_changed", "problem")
}
