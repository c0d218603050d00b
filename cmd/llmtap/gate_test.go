package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/toolreply"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/agents"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/gate"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

var gateLive = flag.Bool("gate-live", false, "run gates beside rollouts of half a minute")

// A gateTest is a collector and a provider.
type gateTest struct {
	t        *testing.T
	url      string
	nats     string
	sink     *clickhouse.Sink
	provider string
	seed     atomic.Uint64 // each rollout has other conversations

	mu      sync.Mutex // guards limited and the random numbers
	limited int        // of 10 calls, this number is rejected with HTTP 429
}

func newGateTest(t *testing.T) *gateTest {
	needClickHouse(t)
	g := &gateTest{t: t}
	cfg := collectortest.Config(t, func(cfg *config.Config) {
		cfg.Roles = []string{config.RoleAnalyze, config.RoleUI}
	})
	col := runCollector(t, cfg)
	g.nats, g.sink, g.url = col.NATSURL(), col.ClickHouse(), "--data-dir="+cfg.DataDir
	strict, rnd := provider.New(provider.Config{Seed: 1}), rand.New(rand.NewPCG(1, 1))
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		reject := rnd.IntN(10) < g.limited
		g.mu.Unlock()
		if reject {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}`))
			return
		}
		strict.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	g.provider = p.URL
	return g
}

// rollout runs the fleet until its calls are stored. healthy is its version of checkout-agent; "" is the defective rollout.
func (g *gateTest) rollout(healthy string, tasks int, d time.Duration) {
	g.t.Helper()
	before := must.Get(g.sink.Counts(g.t.Context()))(g.t)
	r, err := agents.Run(g.t.Context(), agents.Config{ProviderURL: g.provider, NATSURL: g.nats, Tasks: tasks, Duration: d, Seed: g.seed.Add(1), Healthy: healthy})
	if err != nil {
		g.t.Error(err)
	}
	must.Wait(g.t, "the calls are stored", func() bool {
		now, err := g.sink.Counts(g.t.Context())
		return err == nil && now["exchanges"] >= before["exchanges"]+r.Published
	})
}

// gate runs llmtap gate and returns its JSON report, its text and its exit code.
func (g *gateTest) gate(args ...string) (report gate.Report, out string, code int) {
	g.t.Helper()
	var stdout, stderr lockedBuffer
	err := run(g.t.Context(), append([]string{"gate", "--service=checkout-agent", g.url}, args...), nil, &stdout, &stderr, func(string) string { return "" })
	code = command.Report(err, &stderr)
	out = stdout.String()
	if strings.HasPrefix(out, "{") {
		must.Do(g.t, json.Unmarshal([]byte(out), &report))
	}
	return report, out + stderr.String(), code
}

func TestGate(t *testing.T) {
	g := newGateTest(t)
	g.rollout("2.3.9", 20, 0)
	_, out, code := g.gate("--version=2.4.0", "--once") // without --baseline
	if code != gate.ExitTooFew || !strings.Contains(out, "no calls in the last 10m0s") {
		t.Errorf("before the rollout: exit code %d\n%s", code, out)
	}

	var all sync.WaitGroup
	for _, healthy := range []string{"2.3.9", "2.4.1", ""} {
		all.Go(func() { g.rollout(healthy, 20, 0) })
	}
	all.Wait()
	r, out, code := g.gate("--version=2.4.0", "--baseline=2.3.9", "--once", "--format=json")
	if code != gate.ExitWorse || r.Verdict != gate.Worse || len(r.Causes) == 0 || r.Causes[0].Cause != "orphan_tool_reply" || r.Causes[0].Old != 0 {
		t.Errorf("defective version: exit code %d\n%s", code, out)
	}
	_, out, code = g.gate("--version=2.4.0", "--baseline=2.3.9", "--once")
	wantAll(t, fmt.Sprint("exit code ", code), out, "WORSE: checkout-agent 2.4.0 fails more often than 2.3.9", "orphan_tool_reply (tool_calls_dropped_on_save) in planner", "Fix: ", "llmtap show ")

	if r, out, code = g.gate("--version=2.4.1", "--baseline=2.3.9", "--once", "--min-calls=50", "--format=json"); code != gate.ExitGood || r.Verdict != gate.Good {
		t.Errorf("healthy version: exit code %d\n%s", code, out)
	}
	_, out, code = g.gate("--version=2.4.1", "--baseline=2.3.9", "--once", "--min-calls=5000")
	must.Equal(t, code, gate.ExitTooFew, "few calls: exit code\n%s", out)

	_, out, code = g.gate("--version=2.4.2", "--nosuch")
	must.Equal(t, code, gate.ExitNoVerdict, "wrong flag: exit code\n%s", out)
}

// A version whose calls need more tokens, cost more, have more errors of tools or miss the prompt cache is worse, and one whose calls do not is
// good.
func TestGateMeasures(t *testing.T) {
	g := newGateTest(t)
	rnd, now := rand.New(rand.NewPCG(1, 1)), time.Now().UTC()
	batch := &sinks.Batch{}
	call := func(version string, at time.Time, tokens float64) {
		batch.Exchanges = append(batch.Exchanges, analyzer.Exchange{
			ID: uuid.NewString(), Labels: event.Labels{Service: "checkout-agent", Stage: "planner", ServiceVersion: version}, StartedAt: at, StoredAt: at, Status: 200,
			Duration: time.Duration(1000*math.Exp(rnd.NormFloat64())) * time.Millisecond, InputTokens: int64(tokens * math.Exp(rnd.NormFloat64()/2)), OutputTokens: 100, Messages: 3,
			Provider: "openai", Model: "gpt-5-mini", CacheReported: true, Cache: promptcache.Verdict{Reusable: 900},
		})
	}
	for i := range 300 {
		call("1.0", now.Add(-time.Duration(600+i)*time.Second), 1000)
		at := now.Add(-time.Duration(1000*float64(300-i)/300) * time.Millisecond * 500)
		call("1.0", at, 1000)
		call("1.1", at, 1000)
		call("1.2", at, 4000)
		batch.Exchanges[len(batch.Exchanges)-1].Model = "without a price"
		call("1.3", at, 1000)
		batch.Exchanges[len(batch.Exchanges)-1].Cache = promptcache.Verdict{Reusable: 900, Missed: 900, Reason: promptcache.SystemChanged}
		call("1.5", at, 1000)
		batch.Exchanges[len(batch.Exchanges)-1].Model = "gpt-5-pro"
		call("1.6", at, 1000)
		for _, n := range []int{7, 6, 1} { // both calls of 1.0, and that of 1.6
			x := &batch.Exchanges[len(batch.Exchanges)-n]
			tool := analyzer.ToolCall{
				ID: uuid.NewString(), Labels: x.Labels, Name: "search", State: session.Answered, StoredAt: x.StoredAt, AskedAt: x.StoredAt, AnsweredAt: x.StoredAt, AnsweredBy: x.ID,
			}
			if n == 1 && i%3 == 0 {
				tool.ReplyError = toolreply.Likely
			}
			batch.ToolCalls = append(batch.ToolCalls, tool)
		}
		call("1.4", at, 1000)
		batch.Exchanges[len(batch.Exchanges)-1].Cache = promptcache.Verdict{Reusable: 900, Missed: 900, Reason: promptcache.Idle}
	}
	must.Do(t, g.sink.Write(t.Context(), batch))
	r, out, code := g.gate("--version=1.1", "--baseline=1.0", "--once", "--format=json")
	if code != gate.ExitGood || r.Compared != 300 || len(r.Stages) != 1 || len(r.Stages[0].Measures) < 4 {
		t.Errorf("equal version: exit code %d\n%s", code, out)
	}
	r, out, code = g.gate("--version=1.2", "--baseline=1.0", "--once", "--format=json")
	if code != gate.ExitWorse || r.WorseIn != "input_tokens" || r.Stages[0].Measures[0].Measure != "input_tokens" || r.Stages[0].Measures[0].After < 3*r.Stages[0].Measures[0].Before {
		t.Errorf("a version with more tokens: exit code %d\n%s", code, out)
	}
	_, out, _ = g.gate("--version=1.2", "--baseline=1.0", "--once")
	wantAll(t, "text", out, "WORSE: checkout-agent 1.2 reads more tokens than 1.0; stop the rollout", "input tokens: 95% of calls up to 2,", " tokens before, now up to ", "compared calls above that")
	_, out, code = g.gate("--version=1.3", "--baseline=1.0", "--once")
	wantAll(t, fmt.Sprint("exit code ", code), out, "WORSE: checkout-agent 1.3 misses the prompt cache more often than 1.0; stop the rollout",
		"cache: 95% of calls up to 0% of the prompt missed before, now up to 100% of the prompt missed; 300 of 300 compared calls above that, 0 of ")
	_, out, code = g.gate("--version=1.5", "--baseline=1.0", "--once")
	wantAll(t, fmt.Sprint("exit code ", code), out, "WORSE: checkout-agent 1.5 costs more than 1.0; stop the rollout", "cost: 95% of calls up to $0.00")
	_, out, code = g.gate("--version=1.6", "--baseline=1.0", "--once")
	wantAll(t, fmt.Sprint("exit code ", code), out, "WORSE: checkout-agent 1.6 has more errors of tools than 1.0; stop the rollout",
		"tool errors: 95% of calls up to 0% of tool replies with an error before")
	if _, out, code = g.gate("--version=1.4", "--baseline=1.0", "--once"); code != gate.ExitGood {
		t.Errorf("a version whose conversations pause: exit code %d\n%s", code, out)
	}
}

// A collector that cannot be reached gives no verdict.
func TestGateWithoutCollector(t *testing.T) {
	for _, args := range [][]string{{"--url=http://127.0.0.1:1"}, {"--data-dir=" + t.TempDir(), "--version=1"}, {"--for=1s"}, {"--alpha=2"}} {
		if _, stderr, code := runCommand(t, "", append([]string{"gate", "--service=a", "--version=2", "--baseline=1"}, args...)...); code != gate.ExitNoVerdict {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// TestGateLive runs gates beside rollouts and logs after how many calls they end.
func TestGateLive(t *testing.T) {
	if !*gateLive {
		t.Skip("requires -gate-live")
	}
	g := newGateTest(t)
	g.rollout("2.3.9", 80, 20*time.Second)
	rollout := func(healthy, version string, want int) {
		done := make(chan struct{})
		go func() { defer close(done); g.rollout(healthy, 80, 24*time.Second) }()
		began := time.Now()
		r, _, code := g.gate("--version="+version, "--baseline=2.3.9", "--for=30s", "--min-calls=50", "--format=json")
		t.Logf("%s: exit code %d after %s, worse at call %d; compared %d, evidence %g, stages %v", version, code, time.Since(began).Round(time.Second), r.StoppedAt, r.Compared, r.Evidence, r.Stages)
		if code != want || want == gate.ExitWorse && r.StoppedAt > 50 {
			t.Errorf("%s: exit code %d, %+v", version, code, r)
		}
		<-done
		_, out, _ := g.gate("--version="+version, "--baseline=2.3.9", "--for=60s", "--once")
		t.Log("\n" + out)
	}
	rollout("", "2.4.0", gate.ExitWorse)
	rollout("2.4.1", "2.4.1", gate.ExitGood)
	g.limited = 3
	var old sync.WaitGroup
	old.Go(func() { g.rollout("2.3.9", 80, 24*time.Second) })
	rollout("2.4.2", "2.4.2", gate.ExitGood)
	old.Wait()
}
