package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

// checkReceiverTimeout is the timeout of one check of a receiver.
const checkReceiverTimeout = 15 * time.Second

// receiverChecks checks the configured receivers of alerts without notifying them: at start, and those that fail again until
// they work. It does not delay alerts.
type receiverChecks struct {
	receivers []Receiver
	logger    *slog.Logger
	works     *prometheus.GaugeVec
	retry     func() backoff.BackOff // time between checks of a receiver that fails
	done      chan struct{}          // closed when each receiver was checked once

	mu       sync.Mutex // guards the rest
	failures []error    // by index of receivers; nil: not checked yet, or it works
	serving  []error    // by index of receivers; nil: Receiver.Serve works, or there is none
}

func newReceiverChecks(cfg *config.Config, logger *slog.Logger, reg prometheus.Registerer) (*receiverChecks, error) {
	list, err := Receivers(cfg, alerts.NotifierOptions{})
	if err != nil {
		return nil, err
	}
	c := &receiverChecks{receivers: append(list, Heartbeat(cfg)...), logger: logger, done: make(chan struct{})}
	c.failures, c.serving = make([]error, len(c.receivers)), make([]error, len(c.receivers))
	c.works = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "llmtap_alerts_receiver_valid", Help: "1 if the last check of a receiver's configuration succeeded, 0 if it failed. The check sends no notification.",
	}, []string{"receiver", "destination"})
	reg.MustRegister(c.works)
	c.retry = func() backoff.BackOff {
		return &backoff.ExponentialBackOff{InitialInterval: 15 * time.Second, MaxInterval: 15 * time.Minute, Multiplier: 2, RandomizationFactor: 0.2}
	}
	return c, nil
}

// run checks until every receiver works or ctx ends.
func (c *receiverChecks) run(ctx context.Context) error {
	var all, first sync.WaitGroup
	for i := range c.receivers {
		first.Add(1)
		all.Go(func() {
			err := c.check(ctx, i)
			first.Done()
			for wait := c.retry(); err != nil && ctx.Err() == nil; {
				sleep(ctx, wait.NextBackOff())
				err = c.check(ctx, i)
			}
		})
	}
	first.Wait()
	close(c.done)
	all.Wait()
	return nil
}

// check checks receiver i and logs a changed result.
func (c *receiverChecks) check(ctx context.Context, i int) error {
	r := &c.receivers[i]
	timeout, cancel := context.WithTimeout(ctx, checkReceiverTimeout)
	defer cancel()
	_, err := r.Check(timeout)
	if ctx.Err() != nil {
		return err
	}
	c.mu.Lock()
	before := c.failures[i]
	c.failures[i] = err
	c.mu.Unlock()
	c.works.WithLabelValues(r.Kind, r.Destination).Set(boolValue(err == nil))
	switch {
	case err == nil && before != nil:
		c.logger.Info("alert receiver works", "receiver", r.Kind, "destination", r.Destination)
	case err != nil && (before == nil || before.Error() != err.Error()):
		c.logger.Warn("alert receiver does not work, checking it again until it does", "receiver", r.Kind, "destination", r.Destination, "err", err)
	}
	return err
}

// served records whether Serve of receiver i works, and logs a changed result.
func (c *receiverChecks) served(i int, err error) {
	r := &c.receivers[i]
	c.mu.Lock()
	before := c.serving[i]
	c.serving[i] = err
	c.mu.Unlock()
	switch {
	case err == nil && before != nil:
		c.logger.Info("buttons of an alert receiver work", "receiver", r.Kind, "destination", r.Destination)
	case err != nil && (before == nil || before.Error() != err.Error()):
		c.logger.Warn("buttons of an alert receiver do not work, retrying", "receiver", r.Kind, "destination", r.Destination, "err", err)
	}
}

// failed returns the receivers that do not work, each with the reason, joined.
func (c *receiverChecks) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for i, r := range c.receivers {
		if err := c.failures[i]; err != nil {
			errs = append(errs, fmt.Errorf("%s %s does not work: %w", r.Kind, r.Destination, err))
		} else if err := c.serving[i]; err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", r.Kind, r.Destination, err))
		}
	}
	return errors.Join(errs...)
}
