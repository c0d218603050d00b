package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// requestTimeout is the timeout of one JetStream request.
const requestTimeout = 5 * time.Second

// pingInterval is the interval of pings. Without an answer to one until the next, the connection counts as lost: a server that is cut
// off from the network does not close it.
const pingInterval = 5 * time.Second

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

	refusing atomic.Bool // see RefuseEvents

	connected chan struct{}   // closed when the connection is established for the first time
	batches   chan *Publisher // idle publishers of PublishBatch; capacity maxBatches, never closed

	mu        sync.Mutex         // guards the fields below
	intact    context.Context    // canceled and replaced when requests or subscriptions may have lost messages
	interrupt context.CancelFunc // cancels intact
	up        bool               // connected is closed
	failure   error              // last failed attempt to connect; nil while connected
	failingAt time.Time          // time of the first failed attempt
	loggedAt  time.Time          // time at which failure was last logged
}

// Intervals at which failed attempts to connect are logged. A server that restarts is not worth a warning.
const (
	failureLogDelay    = 2 * time.Second
	failureLogInterval = 5 * time.Minute
)

// Open returns a connection that is established in the background: it retries until it is closed, even if the server
// rejects the login. Requests wait for it. Open fails only if cfg is invalid. The default logger is slog.Default; metrics
// are registered only if reg is set. Close closes the connection.
func Open(cfg Config, logger *slog.Logger, reg prometheus.Registerer) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.Default()
	}
	opts, err := cfg.ClientOptions()
	if err != nil {
		return nil, err
	}
	c := &Conn{cfg: cfg, log: logger, m: newMetrics(reg), now: time.Now, connected: make(chan struct{})}
	c.intact, c.interrupt = context.WithCancel(context.Background())
	opts = append(opts,
		nats.Name("llmtap"), nats.CustomInboxPrefix(inboxPrefix), nats.MaxReconnects(-1), nats.ReconnectWait(250*time.Millisecond), nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(), nats.FlusherTimeout(requestTimeout),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(1),
		// Without a reconnect buffer, a publish on a lost connection fails, so nothing is sent twice or out of order.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.onDisconnect(err) }),
		nats.ConnectHandler(func(nc *nats.Conn) { c.onConnect(nc) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { c.onConnect(nc) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.onConnectError(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.onError(err) }),
	)
	if c.nc, err = nats.Connect(cfg.URL, opts...); err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", redactURL(cfg.URL), err)
	}
	if c.js, err = natsjs.New(c.nc, natsjs.WithDefaultTimeout(requestTimeout)); err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	c.batches = c.newBatches()
	return c, nil
}

// Connect is like Open, but waits until the connection is established. It returns an error if ctx ends first or if an
// attempt fails for a reason other than an unreachable server, such as a rejected login.
func Connect(ctx context.Context, cfg Config, logger *slog.Logger, reg prometheus.Registerer) (*Conn, error) {
	c, err := Open(cfg, logger, reg)
	if err != nil {
		return nil, err
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-c.connected:
			return c, nil
		case <-poll.C:
			if err = c.connectError(); err == nil || unreachable(err) {
				continue
			}
		case <-ctx.Done():
			err = ctx.Err()
			if last := c.connectError(); last != nil {
				err = fmt.Errorf("%w: %w", err, last)
			}
		}
		c.Close()
		return nil, fmt.Errorf("connect to NATS at %s: %w", redactURL(cfg.URL), err)
	}
}

// WaitConnected waits until the connection is established for the first time or ctx ends.
func (c *Conn) WaitConnected(ctx context.Context) error {
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	for {
		select {
		case <-c.connected:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C: // nats.go has no callback for a login that is rejected before the first connection
			if err := c.nc.LastError(); isLoginError(err) {
				c.onConnectError(err)
			}
		}
	}
}

// unreachable reports whether an attempt to connect failed because no server responded.
func unreachable(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return false
	}
	return errors.Is(err, nats.ErrNoServers) || IsTransient(err)
}

// isLoginError reports whether err means that NATS rejects the login.
func isLoginError(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAccountAuthExpired)
}

// hintLogin is the fix for a rejected login.
const hintLogin = "set nats.user and nats.password, nats.token, nats.creds_file or nats.nkey_file"

func (c *Conn) onDisconnect(err error) {
	if err != nil { // nil after Close
		c.log.Warn("NATS connection lost, reconnecting", "err", err)
	}
	c.invalidate()
}

func (c *Conn) onConnect(nc *nats.Conn) {
	c.mu.Lock()
	first := !c.up
	if first {
		c.up = true
		close(c.connected)
	}
	logged := !c.loggedAt.IsZero()
	c.failure, c.failingAt, c.loggedAt = nil, time.Time{}, time.Time{}
	c.mu.Unlock()
	if !first || logged {
		c.log.Info("connected to NATS", "url", nc.ConnectedUrlRedacted())
	}
	c.invalidate()
}

// onConnectError records a failed attempt to connect and logs it: the first one after a delay, then at long intervals.
func (c *Conn) onConnectError(err error) {
	if errors.Is(err, nats.ErrNoServers) {
		err = fmt.Errorf("%w: %w", err, syscall.ECONNREFUSED) // nats.go hides the reason of the first attempt
	}
	c.mu.Lock()
	now := time.Now()
	if c.failure == nil {
		c.failingAt = now
	}
	login := isLoginError(err)
	changed := login != isLoginError(c.failure)
	c.failure = err
	log := login && changed || now.Sub(c.failingAt) >= failureLogDelay && (changed || now.Sub(c.loggedAt) >= failureLogInterval)
	if log {
		c.loggedAt = now
	}
	c.mu.Unlock()
	switch {
	case !log:
	case login:
		c.log.Error("NATS rejects the login, retrying", "url", redactURL(c.cfg.URL), "err", err, "hint", hintLogin)
	default:
		c.log.Warn("NATS unreachable, retrying", "url", redactURL(c.cfg.URL), "err", err)
	}
}

// connectError returns the error of the last attempt to connect, or nil while connected.
func (c *Conn) connectError() error {
	if err := c.nc.LastError(); err != nil && !c.nc.IsConnected() {
		return err // nats.go resets it before the next attempt
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

func (c *Conn) onError(err error) {
	if isLoginError(err) {
		c.onConnectError(err)
		return
	}
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

// Healthy returns nil if NATS is connected, otherwise an error with the server and the reason.
func (c *Conn) Healthy() error {
	if c.nc.IsConnected() {
		return nil
	}
	at := redactURL(c.cfg.URL)
	switch err := c.connectError(); {
	case err == nil:
		return fmt.Errorf("NATS at %s is not connected yet", at)
	case isLoginError(err):
		return fmt.Errorf("NATS at %s rejects the login: %w; %s", at, err, hintLogin)
	default:
		return fmt.Errorf("NATS at %s is unreachable: %w", at, err)
	}
}

// Close closes the connection. Close readers and flush publishers first.
func (c *Conn) Close() { c.nc.Close() }

// retry calls op until it succeeds, returns a permanent error or ctx ends. Each attempt is bounded by requestTimeout
// and canceled when the connection is lost, because a NATS server that has shut down never responds.
func (c *Conn) retry(ctx context.Context, op func(context.Context) error) error {
	temporary := func(err error) bool { return IsTransient(err) || errors.Is(err, errInterrupted) }
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

// IsTransient reports whether a retry may succeed, because NATS or JetStream is unavailable or too slow.
func IsTransient(err error) bool {
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
