package collector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// handler serves health and metrics.
func (c *Collector) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		status, err := c.ready(r.Context())
		authorized := c.guard.authorized(r)
		switch {
		case err != nil && authorized:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		case status != "" && authorized:
			fmt.Fprintln(w, "ready: "+status)
		default:
			fmt.Fprintln(w, "ready")
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.metrics, promhttp.HandlerOpts{}))
	return c.guard.wrap(mux)
}

// ready returns the status of the analyzer, if it runs, and an error if events cannot become rows and alerts.
func (c *Collector) ready(ctx context.Context) (status string, err error) {
	if !c.stores() {
		return "", nil // the proxy serves whether or not NATS is up
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var errs []error
	if err := c.conn.Healthy(); err != nil {
		errs = append(errs, fmt.Errorf("reach NATS: %w", err))
	}
	if err := c.sink.Ping(ctx); err != nil {
		errs = append(errs, fmt.Errorf("reach ClickHouse: %w", err))
	}
	if c.analyze != nil {
		if status, err = c.analyze.status(); err != nil {
			errs = append(errs, err)
		}
	}
	return status, errors.Join(errs...)
}
