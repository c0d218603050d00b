package collector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/dashboards/access"
)

// upWait is the time after which a process counts as up even if parts of it do not work yet.
const upWait = 3 * time.Second

// serveReady handles /readyz: status 200 if all parts work, and 503 with one line per part that does not. A process that is
// not ready serves its proxy nevertheless. Receivers of alerts that do not work are listed, without effect on the status.
func (c *Collector) serveReady(w http.ResponseWriter, r *http.Request) {
	status, err := c.ready(r.Context())
	authorized := access.From(r.Context()).Role > access.Public && access.ScopeOf(r.Context()).All()
	text := "ready"
	if err != nil {
		text = "not ready"
	}
	if authorized {
		if err == nil && status != "" {
			text += ": " + status
		}
		if all := errors.Join(err, c.receiversFailed(), c.unavailable()); all != nil {
			text += "\n" + all.Error()
		}
	}
	if err != nil {
		http.Error(w, text, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, text)
}

// unavailable returns why the default address of the role receive is not available, and that there is no ClickHouse, or nil. Without
// effect on the status.
func (c *Collector) unavailable() error {
	err := c.NoStore()
	if c.receive != nil && c.receive.inUse != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w", config.RoleReceive, c.receive.inUse))
	}
	return err
}

// receiversFailed returns the receivers of alerts that do not work, with the reasons, joined.
func (c *Collector) receiversFailed() error {
	if c.receivers == nil {
		return nil
	}
	var states []engine.ReceiverState
	if role := c.controls.Load(); role != nil {
		for _, e := range role.engines() {
			states = append(states, e.Receivers()...)
		}
	}
	return errors.Join(c.receivers.failed(), undelivered(states, time.Now()))
}

const (
	// Undelivered is the beginning of the lines of /readyz about receivers that accept no notifications.
	Undelivered = "notifications to "
	// undeliveredAfter is the time after which a receiver that accepts nothing is listed.
	undeliveredAfter = time.Minute
)

// undelivered returns the receivers for which notifications wait because they accept none, with the reasons, joined.
func undelivered(states []engine.ReceiverState, now time.Time) error {
	var errs []error
	for _, r := range states {
		if r.Err != nil && r.Waiting > 0 && now.Sub(r.FailedAt) >= undeliveredAfter {
			errs = append(errs, fmt.Errorf(Undelivered+"%s: %d waiting, none accepted for %v: %w", r.Name, r.Waiting, now.Sub(r.FailedAt).Round(time.Second), r.Err))
		}
	}
	return errors.Join(errs...)
}

// ready returns the status of the analyzer, if it runs, and an error with a line for each part that does not work.
func (c *Collector) ready(ctx context.Context) (status string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var errs []error
	fail := func(part string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", part, err))
		}
	}
	nats := c.natsFailure()
	if nats != nil {
		errs = append(errs, nats)
	}
	if err := c.disk.failure(); err != nil {
		errs = append(errs, err)
	}
	if nats != nil && c.proxy != nil {
		fail(config.RoleProxy, errors.New(c.proxy.waiting()))
	}
	if c.receive != nil {
		fail(config.RoleReceive, c.receive.failure(nats))
	}
	if c.store != nil && c.NoStore() == nil {
		if err := c.store.Ping(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	waiting := func(role string) error {
		reason := c.status.of(role)
		if reason == errStarting && nats != nil { //nolint:errorlint // errStarting is never wrapped
			return errors.New("waiting for NATS")
		}
		return reason
	}
	if c.analyze != nil {
		reason := waiting(config.RoleAnalyze)
		if reason == nil {
			status, reason = c.analyze.status()
		}
		fail(config.RoleAnalyze, reason)
	}
	if c.cfg.HasRole(config.RoleAlert) {
		fail(config.RoleAlert, waiting(config.RoleAlert))
	}
	if c.ui != nil {
		fail(config.RoleUI, waiting(config.RoleUI))
	}
	return status, errors.Join(errs...)
}

// natsFailure returns the reason why NATS is not usable, or nil.
func (c *Collector) natsFailure() error {
	if err := c.status.of(partNATS); err != nil {
		return fmt.Errorf("%s: %w", partNATS, err)
	}
	return c.conn.Load().Healthy()
}

// WaitReady waits until all parts work or ctx ends.
func (c *Collector) WaitReady(ctx context.Context) error {
	for {
		_, err := c.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ctx.Err(), strings.ReplaceAll(err.Error(), "\n", "; "))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// awaitReady calls Options.Up, and logs when a process that was up but not ready becomes ready.
func (c *Collector) awaitReady(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, upWait)
	err := c.WaitReady(wait)
	if c.receivers != nil {
		select {
		case <-c.receivers.done:
		case <-wait.Done():
		}
	}
	cancel()
	if ctx.Err() != nil {
		return
	}
	if c.opts.Up != nil {
		c.opts.Up(ctx)
	}
	for err != nil {
		sleep(ctx, time.Second)
		if ctx.Err() != nil {
			return
		}
		if _, err = c.ready(ctx); err == nil {
			c.logger.Info("ready: all parts work")
		}
	}
}
