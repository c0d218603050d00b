package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// requestTimeout is the timeout of one JetStream request.
const requestTimeout = 5 * time.Second

// errInterrupted means that a response or messages may be lost because the connection was interrupted.
var errInterrupted = errors.New("the connection was interrupted")

// A Conn is a connection to NATS that reconnects until it is closed.
type Conn struct {
	cfg Config
	log *slog.Logger
	m   *metrics
	nc  *nats.Conn
	js  natsjs.JetStream
	now func() time.Time // clock for leases

	mu        sync.Mutex         // guards the fields below
	intact    context.Context    // canceled and replaced when requests or subscriptions may have lost messages
	interrupt context.CancelFunc // cancels intact
}

// Connect connects to NATS. It retries until a server responds, ctx ends or the server rejects the login. The default
// logger is slog.Default; metrics are registered only if reg is set. Close closes the connection.
func Connect(ctx context.Context, cfg Config, logger *slog.Logger, reg prometheus.Registerer) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.Default()
	}
	c := &Conn{cfg: cfg, log: logger, m: newMetrics(reg), now: time.Now}
	c.intact, c.interrupt = context.WithCancel(context.Background())
	opts, err := cfg.ClientOptions()
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		nats.Name("llmtap"), nats.MaxReconnects(-1), nats.ReconnectWait(250*time.Millisecond), nats.ReconnectJitter(250*time.Millisecond, time.Second),
		// Without a reconnect buffer, a publish on a lost connection fails, so nothing is sent twice or out of order.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.onDisconnect(err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { c.onReconnect(nc) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.onError(err) }),
	)
	if err := c.dial(ctx, opts); err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", redactURL(cfg.URL), err)
	}
	if c.js, err = natsjs.New(c.nc, natsjs.WithDefaultTimeout(requestTimeout)); err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return c, nil
}

func (c *Conn) dial(ctx context.Context, opts []nats.Option) error {
	unreachable := func(err error) bool { return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) }
	logged := false
	return retry(ctx, backoff.NewConstantBackOff(time.Second), unreachable, func() (err error) {
		if c.nc, err = nats.Connect(c.cfg.URL, opts...); err != nil && unreachable(err) && !logged {
			c.log.Warn("NATS unreachable, retrying", "url", redactURL(c.cfg.URL), "err", err)
			logged = true
		}
		return err
	})
}

func (c *Conn) onDisconnect(err error) {
	if err != nil { // nil after Close
		c.log.Warn("NATS connection lost, reconnecting", "err", err)
	}
	c.invalidate()
}

func (c *Conn) onReconnect(nc *nats.Conn) {
	c.log.Info("reconnected to NATS", "url", nc.ConnectedUrlRedacted())
	c.invalidate()
}

func (c *Conn) onError(err error) {
	c.log.Warn("NATS client error", "err", err)
	if errors.Is(err, nats.ErrSlowConsumer) {
		c.invalidate()
	}
}

// invalidate cancels all requests and subscriptions that may have lost messages.
func (c *Conn) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupt()
	c.intact, c.interrupt = context.WithCancel(context.Background())
}

// whileIntact returns a copy of ctx that is also canceled by the next call of invalidate.
func (c *Conn) whileIntact(ctx context.Context) (context.Context, context.CancelFunc) {
	c.mu.Lock()
	intact := c.intact
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(intact, cancel)
	return ctx, func() { stop(); cancel() }
}

// Healthy returns nil if NATS is connected, otherwise an error with the status of the connection.
func (c *Conn) Healthy() error {
	if c.nc.IsConnected() {
		return nil
	}
	err := fmt.Errorf("NATS at %s is %v", redactURL(c.cfg.URL), c.nc.Status())
	if last := c.nc.LastError(); last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// Close closes the connection. Close readers and flush publishers first.
func (c *Conn) Close() { c.nc.Close() }

// retry calls op until it succeeds, returns a permanent error or ctx ends. Each attempt is bounded by requestTimeout
// and canceled when the connection is lost, because a NATS server that has shut down never responds.
func (c *Conn) retry(ctx context.Context, op func(context.Context) error) error {
	temporary := func(err error) bool { return transient(err) || errors.Is(err, errInterrupted) }
	return retry(ctx, newBackOff(time.Second), temporary, func() error {
		intact, cancel := c.whileIntact(ctx)
		defer cancel()
		attempt, cancel := context.WithTimeout(intact, requestTimeout)
		defer cancel()
		err := op(attempt)
		if err != nil && intact.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: %w", errInterrupted, err)
		}
		return err
	})
}

// retry calls op until it succeeds, returns an error that is not temporary, or ctx ends.
func retry(ctx context.Context, b backoff.BackOff, temporary func(error) bool, op func() error) error {
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		if last = op(); last != nil && !temporary(last) {
			return struct{}{}, backoff.Permanent(last)
		}
		return struct{}{}, last
	}, backoff.WithBackOff(b), backoff.WithMaxElapsedTime(0))
	if err != nil && temporary(last) {
		return fmt.Errorf("%w: %w", ctx.Err(), last)
	}
	return err
}

// newBackOff returns an exponential backoff from 20 ms to limit.
func newBackOff(limit time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.MaxInterval = 20*time.Millisecond, 2, limit
	return b
}

// transient reports whether a retry may succeed, because NATS or JetStream is unavailable or too slow.
func transient(err error) bool {
	for _, t := range []error{
		nats.ErrTimeout, context.DeadlineExceeded, nats.ErrNoResponders, natsjs.ErrNoStreamResponse, nats.ErrDisconnected,
		nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting, nats.ErrStaleConnection,
		natsjs.ErrAsyncPublishTimeout, natsjs.ErrTooManyStalledMsgs, io.EOF, net.ErrClosed,
	} {
		if errors.Is(err, t) {
			return true
		}
	}
	// A publish that fills the buffer of nats.go writes to the socket and returns the socket's error.
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	var api *natsjs.APIError
	return errors.As(err, &api) && api.Code == 503 // JetStream has no leader, is shutting down or is recovering
}

// sleep waits for d. It returns the error of ctx if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
