package collector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// partNATS is the name of NATS in a status; the other names are those of the roles.
const partNATS = "NATS"

// errStarting is the status of a part that has neither started nor failed.
var errStarting = errors.New("starting")

// ensureTimeout is the time after which the creation of the streams counts as failed.
const ensureTimeout = 30 * time.Second

// A status contains the reasons why parts of a process do not work.
type status struct {
	mu      sync.Mutex // guards reasons
	reasons map[string]error
}

// set sets the reason why part does not work; nil: it works.
func (s *status) set(part string, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons == nil {
		s.reasons = map[string]error{}
	}
	s.reasons[part] = reason
}

// of returns the reason why part does not work, or nil.
func (s *status) of(part string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reasons[part]
}

// runRole runs a role until ctx ends, once the streams exist. A role that fails starts again, so that it does not stop the
// others: above all, agents depend on the proxy.
func (c *Collector) runRole(ctx context.Context, role string, run func(context.Context) error) error {
	c.status.set(role, errStarting)
	wait := newBackOff()
	for {
		started := time.Now()
		err := c.ensureStreams(ctx)
		if err == nil {
			c.status.set(role, nil)
			err = run(ctx)
		}
		switch {
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil
		case ctx.Err() != nil:
			return err
		case err == nil:
			err = errors.New("the role has ended")
		}
		c.status.set(role, err)
		if time.Since(started) > time.Minute {
			wait.Reset()
		}
		next := wait.NextBackOff()
		c.logger.Error("role failed, starting it again", "role", role, "err", err, "wait", next)
		sleep(ctx, next)
	}
}

// ensureStreams waits for NATS and creates the streams.
func (c *Collector) ensureStreams(ctx context.Context) error {
	select {
	case <-c.connected:
	case <-ctx.Done():
		return ctx.Err()
	}
	conn := c.conn.Load()
	if err := conn.WaitConnected(ctx); err != nil {
		return err
	}
	c.ensuring.Lock()
	defer c.ensuring.Unlock()
	timeout, cancel := context.WithTimeout(ctx, ensureTimeout)
	defer cancel()
	if err := conn.Ensure(timeout); err != nil {
		return fmt.Errorf("create streams: %w", err)
	}
	return nil
}

// registries gathers the metrics of parts that may start again. A part that starts again has new counters.
type registries struct {
	mu   sync.Mutex // guards regs
	regs map[string]*prometheus.Registry
}

// register returns a new registerer for a part, which adds labels.
func (r *registries) register(part string, labels prometheus.Labels) prometheus.Registerer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.regs == nil {
		r.regs = map[string]*prometheus.Registry{}
	}
	r.regs[part] = prometheus.NewRegistry()
	return prometheus.WrapRegistererWith(labels, r.regs[part])
}

func (r *registries) unregister(part string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.regs, part)
}

// Gather implements prometheus.Gatherer.
func (r *registries) Gather() ([]*dto.MetricFamily, error) {
	r.mu.Lock()
	all := prometheus.Gatherers{}
	for reg := range maps.Values(r.regs) {
		all = append(all, reg)
	}
	r.mu.Unlock()
	return all.Gather()
}
