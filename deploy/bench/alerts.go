package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	probeEvery = 3 * time.Second // at least; a long phase has 30 probes
	probeCalls = 6               // failed calls of a stage: the least for which StageFailureRate fires
)

// alerts makes stages fail, and receives the alerts of llmtap that say so.
type alerts struct {
	server *httptest.Server
	mu     sync.Mutex  // guards the fields below
	at     []time.Time // when the calls of each stage were published, one right after the other; zero after its alert
	took   []time.Duration
}

var probeStage = regexp.MustCompile(`"probe-(\d+)"`)

// configure starts the receiver, and writes a configuration file of llmtap with it.
func (a *alerts) configure(dir string) (file string, err error) {
	a.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is there says which alerts came
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, m := range probeStage.FindAllSubmatch(body, -1) {
			if i, err := strconv.Atoi(string(m[1])); err == nil && i < len(a.at) && !a.at[i].IsZero() {
				a.took = append(a.took, time.Since(a.at[i]))
				a.at[i] = time.Time{}
			}
		}
	}))
	file = filepath.Join(dir, "alerts.yaml")
	return file, os.WriteFile(file, fmt.Appendf(nil, "webhook: {url: '%s', secret: 0123456789abcdef}\n", a.server.URL), 0o600)
}

// probe makes stages fail for d, and adds their calls to sent.
func (a *alerts) probe(ctx context.Context, pub *jetstream.Publisher, environment string, d time.Duration, sent *published) error {
	seq, every := uint64(0), max(probeEvery, d/30)
	for end := time.Now().Add(d - 2*probeEvery); time.Now().Before(end); {
		a.mu.Lock()
		stage := len(a.at)
		a.at = append(a.at, time.Now())
		a.mu.Unlock()
		for range probeCalls {
			labels := event.Labels{Service: "bench-probe", ServiceVersion: "1.0.0", Environment: environment, Agent: "agent", Stage: fmt.Sprint("probe-", stage)}
			c := load.Chat(labels, nil, load.Message("assistant", ""))
			c.Status, c.Response, c.Instance = http.StatusBadRequest, []byte(load.OrphanReply), "probe-"+environment
			if err := sent.publish(ctx, pub, c, c.Events(&seq)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
	return pub.Flush(ctx)
}

// result writes the times of the alerts since the last call to r.
func (a *alerts) result(r *result, before int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.Alerts = [2]int{len(a.at) - before, len(a.took)}
	if slices.Sort(a.took); len(a.took) > 0 {
		r.Alert = [2]float64{a.took[len(a.took)/2].Seconds(), a.took[len(a.took)*99/100].Seconds()}
	}
	a.took = nil
}
