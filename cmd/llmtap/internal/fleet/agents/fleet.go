package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

// tenants are the values of the attribute tenant.
var tenants = []string{"acme", "globex", "initech"}

// maxParallel is the number of concurrent tasks of a service.
const maxParallel = 8

// A Config configures the fleet.
type Config struct {
	ProviderURL string        // scheme and host of package provider
	NATSURL     string        // URL of the NATS server to which the hooks publish
	Tasks       int           // tasks per service; checkout-agent has 1.5 times as many
	Duration    time.Duration // period over which the starts of tasks are spread evenly; 0: no delay
	Seed        uint64
	Log         *slog.Logger // default: logs are discarded

	// Healthy, if set, is the version of all tasks of checkout-agent, which are then not defective. Otherwise 2.4.0 is rolled out.
	Healthy string

	// FlushTimeout is the maximum time to publish pending events at the end. Default: 10 s.
	FlushTimeout time.Duration

	// MemoryLimit is the memory limit of each hook. Default: that of the hook.
	MemoryLimit int64

	// OnPublished, if set, is called concurrently with the id of each exchange that NATS has stored.
	OnPublished func(exchange string)
}

// Default returns the configuration of the demo: about 1,300 exchanges in 25 s.
func Default() Config {
	return Config{Tasks: 80, Duration: 24 * time.Second, Seed: 1, FlushTimeout: 10 * time.Second}
}

// A Report counts the work of the fleet.
type Report struct {
	Exchanges int          `json:"exchanges"` // calls made
	Failed    int          `json:"failed"`    // calls with an error or without an answer
	Published uint64       `json:"published"` // exchanges of which NATS stored both halves
	Dropped   uint64       `json:"dropped"`
	Pending   int          `json:"pending"` // events not published in time
	Stages    []StageCount `json:"stages"`
}

// A StageCount counts calls by service, version, stage and status.
type StageCount struct {
	Service string `json:"service"`
	Version string `json:"version"`
	Stage   string `json:"stage"`
	Status  int    `json:"status"` // 0: no answer
	Calls   int    `json:"calls"`
}

// A tally counts calls.
type tally struct {
	mu    sync.Mutex         // guards calls
	calls map[StageCount]int // counts by key; Calls is 0 in the keys
}

func (t *tally) count(a *agent, stage string, err error) {
	k := StageCount{Service: a.service, Version: a.version, Stage: stage, Status: http.StatusOK}
	if err != nil {
		k.Status = 0
		if apiErr, ok := errors.AsType[*statusError](err); ok {
			k.Status = apiErr.status
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[k]++
}

func (t *tally) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	var r Report
	for k, n := range t.calls {
		k.Calls = n
		r.Stages = append(r.Stages, k)
		r.Exchanges += n
		if k.Status != http.StatusOK {
			r.Failed += n
		}
	}
	slices.SortFunc(r.Stages, func(a, b StageCount) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Stage, b.Stage), a.Status-b.Status)
	})
	return r
}

// Run runs the fleet until all tasks are done and published. If ctx ends first, it aborts running tasks and reports the work
// so far without an error.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.FlushTimeout == 0 {
		cfg.FlushTimeout = Default().FlushTimeout
	}
	u, err := url.Parse(cfg.ProviderURL)
	if err != nil || u.Host == "" {
		return Report{}, fmt.Errorf("provider URL %q requires scheme and host", cfg.ProviderURL)
	}
	base := &http.Transport{MaxIdleConnsPerHost: 3 * maxParallel}
	defer base.CloseIdleConnections()
	f := fleet{cfg: &cfg, host: u.Host, base: base, tally: &tally{calls: make(map[StageCount]int)}}
	err = f.run(ctx)
	r := f.tally.report()
	for _, h := range f.hooks {
		err = errors.Join(err, h.Close()) //nolint:contextcheck // flushes for up to FlushTimeout, even after ctx ends
		s := h.Stats()
		r.Published, r.Dropped, r.Pending = r.Published+s.Published, r.Dropped+s.Dropped, r.Pending+s.Pending
	}
	return r, err
}

// A fleet is the state of one run.
type fleet struct {
	cfg   *Config
	host  string
	base  *http.Transport
	tally *tally
	hooks []*llmtap.Hook
}

// run starts the services and waits for them.
func (f *fleet) run(ctx context.Context) error {
	agents := make([][]*agent, len(services))
	for n, s := range services {
		if s.name == checkout.name && f.cfg.Healthy != "" {
			s.versions = []string{f.cfg.Healthy}
		}
		for _, version := range s.versions {
			h, err := llmtap.Open(llmtap.Config{ //nolint:contextcheck // the hook lives until Close, even after ctx ends
				URL: f.cfg.NATSURL, Service: s.name, ServiceVersion: version, Environment: "demo", Agent: s.name,
				Capture: "full", Hosts: []string{f.host}, Logger: f.cfg.Log, FlushTimeout: f.cfg.FlushTimeout, MemoryLimit: f.cfg.MemoryLimit, OnPublished: f.cfg.OnPublished,
			})
			if err != nil {
				return fmt.Errorf("open the hook of %s: %w", s.name, err)
			}
			f.hooks = append(f.hooks, h)
			base := strings.TrimSuffix(f.cfg.ProviderURL, "/") + s.path
			agents[n] = append(agents[n], newAgent(s.name, version, s.model, base, h.Transport(f.base), f.tally, f.cfg.Log))
		}
	}
	var all errgroup.Group
	for n, s := range services {
		all.Go(func() error { return f.serve(ctx, s, agents[n], uint64(n)) })
	}
	return all.Wait()
}

// serve starts the tasks of a service, spread evenly over time, and waits for them.
func (f *fleet) serve(ctx context.Context, s service, agents []*agent, n uint64) error {
	var tasks errgroup.Group
	tasks.SetLimit(maxParallel)
	total := s.tasks(f.cfg)
	start := time.Now()
	for i := range total {
		if !sleepUntil(ctx, start.Add(f.cfg.Duration*time.Duration(i)/time.Duration(total))) {
			break
		}
		id := fmt.Sprintf("%s-%d-%04d", strings.TrimSuffix(s.name, "-agent"), f.cfg.Seed, i)
		version, stages := s.task(i, id, rand.New(rand.NewPCG(f.cfg.Seed, n<<32|uint64(i))))
		if len(agents) == 1 {
			version = 0
		}
		if s.name == checkout.name && f.cfg.Healthy != "" {
			for i := range stages {
				stages[i].saver = healthy
			}
		}
		if version > 0 && i == 1 {
			f.cfg.Log.Info("new version rolled out", "service", s.name, "version", s.versions[version])
		}
		ctx := llmtap.WithUser(llmtap.WithAttr(ctx, "tenant", tenants[i%len(tenants)]), fmt.Sprintf("user-%d", i%12))
		tasks.Go(func() error {
			perform(ctx, agents[version], id, stages)
			return nil
		})
	}
	return tasks.Wait()
}

// sleepUntil waits until t; it returns false if ctx ends first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
