package llmtap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// A failure to publish is logged at once, and while it lasts again after minLogInterval, twice that, and so on.
const (
	minLogInterval = time.Minute
	maxLogInterval = time.Hour

	// startGrace is the time after which a failure is logged although no event waits: NATS may be starting too.
	startGrace = 2 * time.Second
)

// A reporter logs when publishing fails, when it recovers and what is lost. It is silent while publishing works.
type reporter struct {
	log     *slog.Logger
	over    bool   // over an endpoint instead of NATS
	key     string // of servers in messages: nats or endpoint
	servers string // URLs without credentials
	service string // token of the service
	proxy   bool   // the hook of the proxy, which is configured by llmtap up

	mu       sync.Mutex // guards the fields below
	failing  error      // nil if the last attempt to publish succeeded
	denied   error      // permission violation since the last success
	stored   bool       // at least one attempt succeeded
	since    time.Time  // start of the failure
	logged   bool       // the failure was logged
	next     time.Time  // when to log the failure again
	interval time.Duration
	dropped  uint64 // dropped exchanges that were logged
	closed   bool   // the loss was logged; later failures are not
}

func newReporter(cfg *Config) *reporter {
	r := &reporter{
		log: cfg.Logger, key: "nats", servers: displayURLs(cfg.URL), service: event.ServiceToken(cfg.Service), proxy: cfg.Origin == event.OriginProxy,
	}
	if cfg.Endpoint != "" {
		r.over, r.key, r.servers = true, "endpoint", displayURLs(cfg.Endpoint)
	}
	return r
}

// displayURLs returns the URLs in s without credentials and parameters.
func displayURLs(s string) string {
	var shown []string
	for one := range strings.SplitSeq(s, ",") {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		if u, err := url.Parse(one); err == nil {
			shown = append(shown, u.Scheme+"://"+u.Host+u.Path)
		}
	}
	return strings.Join(shown, ",")
}

// failed logs a failed attempt to publish or to connect, unless the failure was logged recently. pending means that
// events wait.
func (r *reporter) failed(err error, pending bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing == nil {
		r.since, r.next, r.interval, r.logged = now, now, minLogInterval, false
	}
	if r.failing = err; r.denied != nil {
		r.failing = r.denied // the reason for missing acknowledgements
	}
	if r.closed || now.Before(r.next) || !pending && now.Before(r.since.Add(startGrace)) {
		return
	}
	r.logged = true
	r.next, r.interval = now.Add(r.interval), min(2*r.interval, maxLogInterval)
	attrs := []any{r.key, r.servers, "error", r.failing, "fix", r.fix(r.failing)}
	if r.over {
		r.log.Warn("llmtap: cannot send to the endpoint, retrying; calls are kept in memory", attrs...)
	} else {
		r.log.Warn("llmtap: cannot publish to NATS, retrying; calls are kept in memory", attrs...)
	}
}

// permissionDenied records a permission violation, which explains why the following messages are not acknowledged.
func (r *reporter) permissionDenied(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.denied = err
}

// succeeded logs that publishing works again if it failed. dropped is the number of exchanges dropped since Open.
func (r *reporter) succeeded(dropped uint64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing != nil && r.logged {
		attrs := []any{r.key, r.servers, "after", now.Sub(r.since).Round(time.Millisecond), "dropped_exchanges", dropped - r.dropped}
		if r.over {
			r.log.Info("llmtap: the endpoint stores events again", attrs...)
		} else {
			r.log.Info("llmtap: connected to NATS, publishing", attrs...)
		}
		r.dropped = dropped
	}
	r.failing, r.denied, r.stored = nil, nil, true
}

// lost logs what is discarded when the hook is closed, and returns it as an error. timeout is the time that Close
// waited, dropped the number of exchanges dropped since Open.
func (r *reporter) lost(u unsent, dropped uint64, timeout time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	reason := r.failing
	switch {
	case reason != nil:
	case r.denied != nil:
		reason = r.denied
	case !r.stored:
		reason = fmt.Errorf("no connection within %v", timeout)
	default:
		reason = fmt.Errorf("not stored within %v", timeout)
	}
	if u == (unsent{}) {
		if dropped > r.dropped {
			r.log.Warn("llmtap: exchanges were dropped because memory was full or NATS rejected them", "exchanges", dropped-r.dropped, r.key, r.servers)
			r.dropped = dropped
		}
		return nil
	}
	attrs := []any{"exchanges", u.exchanges}
	if u.steps > 0 {
		attrs = append(attrs, "run_and_tool_events", u.steps)
	}
	if dropped > 0 {
		attrs = append(attrs, "dropped_before", dropped)
	}
	attrs = append(attrs, r.key, r.servers, "error", reason, "fix", r.fix(reason))
	r.log.Warn("llmtap: exchanges discarded at exit, NATS has not stored them", attrs...)
	return fmt.Errorf("publish %v to %s: %w", u, r.servers, reason)
}

// refused is part of the error of a stream that refuses events because the disk is full.
const refused = "maximum messages exceeded"

// fix returns what to do about an error.
func (r *reporter) fix(err error) string {
	if r.over {
		return endpointFix(err)
	}
	switch text := err.Error(); {
	case errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Sprintf("permit the user to publish to llmtap.v1.*.%s.* and to subscribe to _INBOX.%s.>", r.service, r.service)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return "run llmtap up with this NATS server: it creates the stream"
	case strings.Contains(text, refused):
		return "free space on the disk of llmtap up: it refuses events while the disk is full; llmtap doctor shows it"
	case r.proxy:
		return "start NATS, or correct nats.url and its login; /readyz has the state"
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return "add the token or the user and password to " + event.EnvNATSURL + ", or pass credentials in Config.NATSOptions"
	case strings.Contains(text, "x509") || strings.Contains(text, "tls") || strings.Contains(text, "for TLS") || errors.Is(err, nats.ErrSecureConnWanted) || errors.Is(err, nats.ErrSecureConnRequired):
		return "check whether the server uses TLS, and whether its CA is in " + event.EnvCAFile
	}
	return "run llmtap up, or set " + event.EnvNATSURL
}

// A dialer connects to NATS and remembers why the last connection failed: the NATS client reports a refused connection
// only as ErrNoServers, and reconnects in the background.
type dialer struct {
	ctx  context.Context // ends when the hook is closed
	base net.Dialer

	mu  sync.Mutex // guards err
	err error
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	c, err := d.base.DialContext(d.ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	return c, err
}

// reason returns the error of the last connection instead of err if err says only that there is no connection.
func (d *dialer) reason(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil && (errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrDisconnected)) {
		return d.err
	}
	return err
}
