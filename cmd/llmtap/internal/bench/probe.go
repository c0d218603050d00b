package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/deploy/bench/load"
)

const (
	probeEvery  = 250 * time.Millisecond // time between two calls whose way is measured
	pollEvery   = 100 * time.Millisecond // error of a measured time
	maxProbes   = 200                    // calls that are awaited at a time; further ones are not measured
	pollTimeout = 2 * time.Second        // ClickHouse may be stopped
)

// A prober measures the time from publishing the response of a call until a query returns the call.
type prober struct {
	store rows.Querier

	mu      sync.Mutex // guards the fields below
	last    time.Time
	waiting map[string]probe // by exchange id
	took    []time.Duration
}

type probe struct{ published, started time.Time }

// add measures the way of c if it is time for it. It is called before the response is published.
func (p *prober) add(c *load.Call) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.last) < probeEvery || len(p.waiting) >= maxProbes {
		return
	}
	p.last = now
	p.waiting[c.ID] = probe{now, c.At}
}

// count returns the number of calls that are awaited.
func (p *prober) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// run polls until ctx ends.
func (p *prober) run(ctx context.Context) {
	for ctx.Err() == nil {
		p.poll(ctx)
		wait(ctx, pollEvery)
	}
}

func (p *prober) poll(ctx context.Context) {
	p.mu.Lock()
	var ids []string
	var oldest time.Time
	for id, c := range p.waiting {
		ids = append(ids, "'"+id+"'")
		if oldest.IsZero() || c.started.Before(oldest) {
			oldest = c.started
		}
	}
	p.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	// The sort key begins with the hour of the start.
	found, err := rows.Read(ctx, p.store, "new calls", fmt.Sprintf("SELECT exchange_id FROM exchanges WHERE started_at >= toDateTime64('%s', 9, 'UTC') AND exchange_id IN (%s)",
		oldest.Add(-time.Second).UTC().Format("2006-01-02 15:04:05"), strings.Join(ids, ",")), nil)
	if err != nil {
		return // the next poll finds the calls
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range found {
		id := r.Text("exchange_id")
		if c, ok := p.waiting[id]; ok {
			p.took = append(p.took, now.Sub(c.published))
			delete(p.waiting, id)
		}
	}
}
