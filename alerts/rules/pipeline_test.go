package rules_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

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
			must.Agree(t, cmp.Diff(up.first, down.first, cmpopts.IgnoreFields(alerts.Alert{}, "Unavailable")), "fired (-with the store +without)")
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
