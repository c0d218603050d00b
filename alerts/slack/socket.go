package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"
)

const (
	// helloTimeout bounds the time until Slack greets a new connection.
	helloTimeout = 30 * time.Second
	// pingTimeout is the time without a ping after which a connection is dead. Slack pings more often.
	pingTimeout = 30 * time.Second
	// minStable is the duration of a connection after whose end the next one is opened without a pause.
	minStable  = 10 * time.Second
	maxFrame   = 4 << 20 // bytes; a callback contains the message
	maxQueue   = 64      // presses
	ackTimeout = 2 * time.Second
)

var (
	errNoHello = errors.New("Slack did not greet the connection")            //nolint:staticcheck // Slack is a name
	errClosed  = errors.New("Slack closed the connection, or sent no pings") //nolint:staticcheck // Slack is a name
)

// A socket receives presses over a Socket Mode connection, and executes them one after the other.
//
//	Slack ── envelope ──> session ── queue ──> work ──> presser ──> Controls
//	  ↑                                         └─ acknowledged after the action is stored
//	  └── message edited by the leader, which sees the change in Controls
//
// Each process has its own connection, and Slack sends an envelope to any of them. Slack replaces a connection every few
// hours: for the half second without one, it shows the person that the app did not respond, unless there is another
// process.
type socket struct {
	api     *slack.Client // with the app-level token
	presser *presser
	log     *slog.Logger
	m       *metrics
	retry   func() backoff.BackOff
	hello   time.Duration
	ping    time.Duration
	stable  time.Duration
	queue   chan envelope                     // of maxQueue; never closed. When it is full, Slack tells the person that the app did not respond.
	client  atomic.Pointer[socketmode.Client] // of the latest session
}

// An envelope is one delivery of presses.
type envelope struct {
	id      string
	presses []*press
}

func newSocket(api *slack.Client, p *presser) *socket {
	return &socket{
		api: api, presser: p, log: p.log, m: p.m, hello: helloTimeout, ping: pingTimeout, stable: minStable, queue: make(chan envelope, maxQueue),
		retry: func() backoff.BackOff {
			return &backoff.ExponentialBackOff{InitialInterval: time.Second, MaxInterval: 2 * time.Minute, Multiplier: 2, RandomizationFactor: 0.2}
		},
	}
}

// serve implements alerts.Receiver.Serve.
func (s *socket) serve(ctx context.Context, report func(error)) {
	var worker sync.WaitGroup
	worker.Go(func() { s.work(ctx) })
	defer worker.Wait()
	wait, failures := s.retry(), 0
	for ctx.Err() == nil {
		lasted, err := s.session(ctx, report)
		if ctx.Err() != nil {
			return
		}
		if lasted {
			wait, failures = s.retry(), 0
		}
		if failures++; !errors.Is(err, errClosed) || failures > 1 { // one connection that Slack closes at once is a coincidence
			report(buttonsError(err))
		}
		delay := wait.NextBackOff()
		if limited, ok := errors.AsType[*slack.RateLimitedError](err); ok {
			delay = max(delay, limited.RetryAfter)
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// session runs connections until one fails. lasted reports whether one before it did not. The client of slack-go replaces
// a connection that Slack closes, but without a pause, even if Slack closes each one at once because there are more than
// 10 of them.
func (s *socket) session(ctx context.Context, report func(error)) (lasted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	client := socketmode.New(s.api, socketmode.OptionReadLimit(maxFrame), socketmode.OptionPingInterval(s.ping))
	s.client.Store(client)
	ended := make(chan error, 1)
	go func() {
		ended <- client.RunContext(ctx)
		close(ended)
	}()
	hello := time.NewTimer(s.hello)
	var greeted time.Time
	defer func() {
		hello.Stop()
		s.m.connected.Set(0)
		cancel()
		for range ended { // until it is closed
		}
	}()
	for first := true; ; {
		select {
		case err := <-ended:
			s.drain(client)
			return lasted, err
		case <-hello.C:
			return lasted, errNoHello
		case e := <-client.Events:
			switch data := e.Data.(type) {
			case *slack.ConnectingEvent:
				s.m.connected.Set(0)
				if !first {
					if greeted.IsZero() || time.Since(greeted) < s.stable {
						return lasted, errClosed
					}
					lasted, greeted = true, time.Time{}
					hello.Reset(s.hello)
				}
				first = false
			case *slack.ConnectionErrorEvent:
				return lasted, data.ErrorObj
			case slack.InteractionCallback:
				s.enqueue(e.Request.EnvelopeID, &data)
			case *socketmode.ErrorBadMessage:
				s.log.Warn("slack sent an unknown message over socket mode", "error", data.Cause)
			}
			if e.Type == socketmode.EventTypeHello {
				hello.Stop()
				greeted = time.Now()
				s.m.connected.Set(1)
				report(nil)
			}
		}
	}
}

// drain queues the presses that client received before it ended.
func (s *socket) drain(client *socketmode.Client) {
	for {
		select {
		case e := <-client.Events:
			if cb, ok := e.Data.(slack.InteractionCallback); ok {
				s.enqueue(e.Request.EnvelopeID, &cb)
			}
		default:
			return
		}
	}
}

// enqueue queues the presses of an envelope.
func (s *socket) enqueue(id string, cb *slack.InteractionCallback) {
	e := envelope{id: id, presses: presses(cb)}
	select {
	case s.queue <- e:
	default:
		for _, p := range e.presses {
			s.m.presses.WithLabelValues(p.action, "dropped").Inc()
			s.log.Warn("press of a button in slack dropped: too many at once", "action", p.action, "user", p.user.ID)
		}
	}
}

// work executes queued presses until ctx ends. A press in progress is completed, so that its outcome is known.
func (s *socket) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-s.queue:
			done := true
			for _, p := range e.presses {
				done = s.presser.handle(context.WithoutCancel(ctx), p) && done
			}
			if done {
				s.acknowledge(ctx, e.id)
			}
		}
	}
}

// acknowledge acknowledges an envelope on the latest connection.
func (s *socket) acknowledge(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	if err := s.client.Load().AckCtx(ctx, id, nil); err != nil && !errors.Is(err, context.Canceled) {
		s.log.Warn("press of a button in slack not acknowledged", "error", err)
	}
}

// buttonsError describes why presses do not arrive.
func buttonsError(err error) error {
	if !errors.Is(err, errNoHello) && !errors.Is(err, errClosed) {
		err = classify(openConnection, hideURL(err)).err
	}
	return fmt.Errorf("buttons do not work: %w", err)
}

// hideURL removes the URL, which is secret, from an error of an HTTP call.
func hideURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
