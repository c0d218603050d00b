package collector

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// RefusedPath returns the clients that the embedded NATS refused in the last hour, as a JSON array of natsserver.Refusal.
const RefusedPath = "/api/nats/refused"

// refusedPeriod is the period of RefusedPath.
const refusedPeriod = time.Hour

// serveRefused serves RefusedPath.
func (c *Collector) serveRefused(w http.ResponseWriter, _ *http.Request) {
	refused := []natsserver.Refusal{}
	if c.server != nil {
		refused = append(refused, c.server.Refused(time.Now().Add(-refusedPeriod))...)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(refused) // an error means that the client is gone
}

// refused returns the clients that the embedded NATS refused in the last hour, in words.
func (c *Collector) refused() (all []string) {
	if c.server == nil {
		return nil
	}
	for _, r := range c.server.Refused(time.Now().Add(-refusedPeriod)) {
		all = append(all, fmt.Sprintf("%s from %s %s: %s", quantity.Plural(r.Count, "connection"), r.From(), r.Verb(), r.Reason))
	}
	return all
}

const (
	// logInterval is the interval at which a lasting failure is logged again.
	logInterval = 5 * time.Minute
	// startGrace is the time that Open waits for the embedded NATS. Usually it starts within 50 ms; if it has to recover a
	// large stream, the process serves meanwhile.
	startGrace = 500 * time.Millisecond
)

// newNATS checks the login. It locks the directory and the port of an embedded server, and begins to start it.
func (c *Collector) newNATS(ctx context.Context) (err error) {
	c.nats = c.cfg.NATS
	if c.nats.URL == "" {
		cfg := c.cfg.NATSServer
		cfg.Logger, cfg.Registerer = c.logger, c.reg
		if c.server, err = natsserver.New(cfg); err != nil { //nolint:contextcheck // finding a free port does not wait
			return fmt.Errorf("start embedded NATS: %w", err)
		}
		ctx, cancel := context.WithCancel(ctx)
		c.onClose(func() {
			cancel() // ends a start that is still in progress
			c.server.Shutdown()
		})
		c.nats.URL, c.nats.Token = c.server.URL(), c.server.Token()
		// A connection in this process is cheaper than TCP. It needs no certificate as a client, and cannot use TLS.
		c.nats.Server = c.server
		c.nats.URL = strings.Replace(c.nats.URL, "tls://", "nats://", 1)
		started := make(chan struct{})
		go func() {
			defer close(started)
			c.started <- c.server.Start(ctx)
		}()
		select {
		case <-started:
		case <-time.After(startGrace):
		}
	}
	if _, err := c.nats.ClientOptions(); err != nil {
		return fmt.Errorf("log in to NATS: %w", err)
	}
	c.status.set(partNATS, errStarting)
	c.onClose(func() {
		if conn := c.conn.Load(); conn != nil {
			conn.Close()
		}
	})
	return nil
}

// connectNATS starts the embedded server, if there is one, and sets c.conn, which connects in the background. The role
// proxy has its own connection, but /readyz needs one.
func (c *Collector) connectNATS(ctx context.Context) error {
	if c.server != nil {
		first := true
		c.keepTrying(ctx, partNATS, func() error {
			if first {
				first = false
				select {
				case err := <-c.started:
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return c.server.Start(ctx)
		})
		if ctx.Err() != nil {
			return nil
		}
	}
	conn, err := jetstream.Open(c.nats, c.logger, c.reg)
	if err != nil {
		return err
	}
	c.conn.Store(conn)
	c.status.set(partNATS, nil)
	close(c.connected)
	return nil
}

// keepTrying calls start until it succeeds or ctx ends. It sets the status of part, and logs the
// first failure, then one per logInterval.
func (c *Collector) keepTrying(ctx context.Context, part string, start func() error) {
	wait, logged := newBackOff(), time.Time{}
	for {
		err := start()
		if err == nil || ctx.Err() != nil {
			return
		}
		c.status.set(part, err)
		if time.Since(logged) >= logInterval {
			c.logger.Error("part does not start, retrying", "part", part, "err", err)
			logged = time.Now()
		}
		sleep(ctx, wait.NextBackOff())
	}
}

// newBackOff returns the time between attempts to start something.
func newBackOff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: time.Second, MaxInterval: 30 * time.Second, Multiplier: 2, RandomizationFactor: 0.2}
}
