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

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// requestTimeout bounds one request to JetStream.
const requestTimeout = 5 * time.Second

// errBroken means that an answer or messages may be lost, because the connection was.
var errBroken = errors.New("the connection was broken")

// A Conn is one connection to NATS, which comes back by itself whenever it breaks.
type Conn struct {
	cfg Config
	log *slog.Logger
	m   *metrics
	nc  *nats.Conn
	js  natsjs.JetStream
	now func() time.Time // of leases

	mu     sync.Mutex         // guards the rest
	intact context.Context    // ends, and is made anew, when what was sent or subscribed to may be lost
	end    context.CancelFunc // of intact
}

// Connect connects to NATS, trying until it answers, ctx ends or the server refuses the login. A nil logger is
// slog.Default, a nil reg registers nothing. Close ends the connection.
func Connect(ctx context.Context, cfg Config, logger *slog.Logger, reg prometheus.Registerer) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.Default()
	}
	c := &Conn{cfg: cfg, log: logger, m: newMetrics(reg), now: time.Now}
	c.intact, c.end = context.WithCancel(context.Background())
	opts, err := cfg.ClientOptions()
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		nats.Name("llmtap"), nats.MaxReconnects(-1), nats.ReconnectWait(250*time.Millisecond), nats.ReconnectJitter(250*time.Millisecond, time.Second),
		// Without a buffer nothing is sent twice or out of order after a reconnect: whoever publishes hears of the
		// break at once, and tries again.
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
	for logged := false; ; {
		nc, err := nats.Connect(c.cfg.URL, opts...)
		if err == nil {
			c.nc = nc
			return nil
		}
		if !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) {
			return err // a login or certificate that will not get better by waiting
		}
		if !logged {
			c.log.Warn("NATS does not answer, trying on", "url", redactURL(c.cfg.URL), "err", err)
			logged = true
		}
		if sleep(ctx, time.Second) != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

func (c *Conn) onDisconnect(err error) {
	if err != nil { // nil when Close did it
		c.log.Warn("NATS connection lost, reconnecting", "err", err)
	}
	c.breakOff()
}

func (c *Conn) onReconnect(nc *nats.Conn) {
	c.log.Info("NATS connection is back", "url", nc.ConnectedUrlRedacted())
	c.breakOff()
}

func (c *Conn) onError(err error) {
	c.log.Warn("NATS reports an error", "err", err)
	if errors.Is(err, nats.ErrSlowConsumer) {
		c.breakOff()
	}
}

// breakOff ends every wait for an answer and every subscription that a break of the connection may have cost messages.
func (c *Conn) breakOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	c.intact, c.end = context.WithCancel(context.Background())
}

// whileIntact returns ctx, which also ends at the next breakOff.
func (c *Conn) whileIntact(ctx context.Context) (context.Context, context.CancelFunc) {
	c.mu.Lock()
	intact := c.intact
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(intact, cancel)
	return ctx, func() { stop(); cancel() }
}

// Healthy returns nil when the connection stands, else an error that says what is wrong.
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

// Close closes the connection. Readers and publishers are closed or flushed before.
func (c *Conn) Close() { c.nc.Close() }

// retry runs op until it succeeds, fails for good or ctx ends. Each try has requestTimeout, and ends with the connection:
// a NATS that is shut down answers nothing, and nobody should wait for that.
func (c *Conn) retry(ctx context.Context, op func(context.Context) error) error {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := c.try(ctx, op)
		if err == nil || !transient(err) && !errors.Is(err, errBroken) {
			return err
		}
		if sleep(ctx, wait) != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

func (c *Conn) try(ctx context.Context, op func(context.Context) error) error {
	whole, cancel := c.whileIntact(ctx)
	defer cancel()
	try, cancel := context.WithTimeout(whole, requestTimeout)
	defer cancel()
	err := op(try)
	if err != nil && whole.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return err
}

// transient reports whether err may go away by waiting: NATS or JetStream is not there, or too slow, just now.
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
	// A publish that fills nats.go's buffer writes to the socket itself, and returns the socket's error.
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	var api *natsjs.APIError
	return errors.As(err, &api) && api.Code == 503 // no leader, shutting down, recovering
}

// sleep waits for d; it returns ctx's error when ctx ends first.
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
