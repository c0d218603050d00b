package collector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/httpevents"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// receiveDrain is the grace period for payloads in flight on shutdown.
const receiveDrain = 10 * time.Second

// A receiveRole is the listener for events over HTTP. Its receivers share mux, guard and budget, and publish with publish.
type receiveRole struct {
	c        *Collector
	mux      *http.ServeMux
	guard    guard
	budget   *httpbody.Budget
	listener net.Listener // nil if inUse is set
	inUse    error        // why the default address is not available
	otlp     otlpReceiver
}

// newReceiveRole opens the receivers and their listener. It does not wait for NATS.
func (c *Collector) newReceiveRole(ctx context.Context) (_ *receiveRole, err error) {
	cfg := c.cfg.Receive
	r := &receiveRole{c: c, mux: http.NewServeMux(), budget: httpbody.NewBudget(cfg.MaxInFlight)}
	if r.guard, err = newGuard("receive", cfg.Token, cfg.TokenFile); err != nil {
		return nil, err
	}
	r.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	r.mux.Handle(httpevents.Path, httpevents.New(httpevents.Options{Publish: r.publish, Budget: r.budget}, c.reg))
	if err := r.openOTLP(ctx); err != nil {
		return nil, err
	}
	r.listener, err = c.listen(ctx, cfg.Listen)
	switch {
	case err == nil:
		c.onClose(func() { _ = r.listener.Close() }) // error ignored: the server may have closed it already
	case errors.Is(err, syscall.EADDRINUSE) && cfg.Listen == config.Default().Receive.Listen && len(c.cfg.Roles) > 1:
		// Many machines run an OpenTelemetry collector on this port. It must not stop a collector that worked without this role.
		r.inUse = fmt.Errorf("%s is in use, perhaps by an OpenTelemetry collector: no events are received over HTTP; "+
			"choose another address with --receive-listen, or omit receive from --roles", cfg.Listen)
		c.logger.Warn("no events are received over HTTP: the default address is in use, perhaps by an OpenTelemetry collector",
			"address", cfg.Listen, "fix", "choose another address with --receive-listen, or omit receive from --roles")
	default:
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --receive-listen, or omit receive from --roles", cfg.Listen, err)
	}
	return r, nil
}

// run serves until ctx ends and payloads in flight are stored.
func (r *receiveRole) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range []net.Listener{r.listener, r.otlp.listener} {
		if l != nil {
			g.Go(func() error { return r.serve(ctx, l) })
		}
	}
	g.Go(func() error { return waitFor(ctx) })
	return g.Wait()
}

// serve serves HTTP and gRPC, which both listeners accept.
func (r *receiveRole) serve(ctx context.Context, l net.Listener) error {
	srv := newServer(r.guard.wrap(r.mux), time.Minute, r.c.logger)
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	return serve(ctx, srv, l, receiveDrain)
}

// publish stores events. See jetstream.Conn.PublishBatch.
func (r *receiveRole) publish(ctx context.Context, events []*event.Event) ([]jetstream.Rejection, error) {
	if err := r.c.natsFailure(); err != nil {
		return nil, err
	}
	return r.c.conn.Load().PublishBatch(ctx, events)
}

// failure returns why no events are received, or nil. nats is the reason why NATS is not usable.
func (r *receiveRole) failure(nats error) error {
	switch {
	case r.inUse != nil:
		return nil // listed by unavailable: the other parts work
	case nats != nil:
		return errors.New("answers 503, so that clients keep their events, until NATS is back")
	}
	return nil
}

// url returns the URL for programs on this machine, or "" if the address is in use.
func (r *receiveRole) url() string {
	if r.listener == nil {
		return ""
	}
	return r.c.localURL(r.listener)
}

// describe returns the rows of the banner.
func (r *receiveRole) describe() [][2]string {
	if r.inUse != nil {
		return [][2]string{{overHTTP, r.inUse.Error()}}
	}
	rows := [][2]string{{overHTTP, "export " + event.EnvEndpoint + "=" + r.url()}}
	if r.guard.tokens.Required() {
		rows = append(rows, [2]string{"", "and " + event.EnvToken + ", the token of receive.token"})
	}
	return rows
}
