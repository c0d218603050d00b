package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	canaryEvery  = 4 * time.Second // time between two services that begin to fail, if the run is short
	mostCanaries = 60              // services of a phase that fail; an hour has at most 200 services, see analyzer.max_label_values
	canaryCalls  = 8               // failing calls; 6 of 6 make StageFailureRate fire
)

// A receiver receives the alerts of llmtap, as the server of its webhook.
type receiver struct {
	url    string
	server *http.Server

	mu    sync.Mutex // guards the fields below
	fired map[string]time.Time
	own   []Alarm // about llmtap itself
	begun time.Time
}

// An Alarm is an alert about llmtap itself, such as BacklogGrowing.
type Alarm struct {
	Name     string  `json:"name"`
	Severity string  `json:"severity"`
	After    float64 `json:"after_seconds"` // since the phase began
}

func newReceiver(ctx context.Context) (*receiver, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("receive alerts: %w", err)
	}
	r := &receiver{url: "http://" + l.Addr().String(), fired: map[string]time.Time{}}
	r.server = &http.Server{Handler: http.HandlerFunc(r.receive), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = r.server.Serve(l) }() // until close
	return r, nil
}

func (r *receiver) close() { _ = r.server.Close() }

// environment returns the settings with which llmtap sends alerts to r.
func (r *receiver) environment() []string {
	return []string{"LLMTAP_WEBHOOK_URL=" + r.url, "LLMTAP_WEBHOOK_SECRET=not-secret-in-a-benchmark"}
}

func (r *receiver) receive(_ http.ResponseWriter, q *http.Request) {
	now := time.Now()
	var m webhook.Message
	if json.NewDecoder(q.Body).Decode(&m) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range m.Alerts {
		service := a.Labels["service"]
		switch _, known := r.fired[service]; {
		case a.Status != "firing" || a.Labels["alertname"] == "Watchdog":
		case a.Labels["component"] != "" && service == "":
			r.own = append(r.own, Alarm{a.Labels["alertname"], a.Labels["severity"], now.Sub(r.begun).Seconds()})
		case !known:
			r.fired[service] = now
		}
	}
}

// begin forgets the alarms so far.
func (r *receiver) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own, r.begun = nil, time.Now()
}

// alarms returns the first alarm of each name and severity since begin.
func (r *receiver) alarms() (list []Alarm) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for _, a := range r.own {
		if key := a.Name + a.Severity; !seen[key] {
			seen[key] = true
			list = append(list, a)
		}
	}
	return list
}

// A canary measures the time from publishing failing calls of a service until the alert about them arrives.
type canary struct {
	receiver *receiver
	conn     *jetstream.Conn // of its own, so that its events do not wait behind those of the fleet
	pub      *jetstream.Publisher
	bench    *bench
	begun    map[string]time.Time // first failure by service
}

func newCanary(ctx context.Context, b *bench) (*canary, error) {
	conn, err := b.target.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &canary{receiver: b.target.receiver, bench: b, conn: conn, pub: conn.NewPublisher(canaryCalls * 2), begun: map[string]time.Time{}}, nil
}

// run lets services fail for d, until ctx ends.
func (c *canary) run(ctx context.Context, d time.Duration) error {
	every := max(canaryEvery, d/mostCanaries)
	for {
		wait(ctx, every-time.Second/2+rand.N(time.Second)) // counts are closed every second
		if ctx.Err() != nil {
			return nil
		}
		if err := c.fail(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("publish failing calls: %w", err)
		}
	}
}

// fail publishes failing calls of a new service.
func (c *canary) fail(ctx context.Context) error {
	c.bench.canaries++
	service := fmt.Sprintf("canary-%s-%d", c.bench.fleet.environment, c.bench.canaries)
	labels := event.Labels{Service: service, ServiceVersion: "1.0.0", Environment: "canary", Agent: "agent", Stage: "planner"}
	c.begun[service] = time.Now()
	var seq uint64
	for i := range canaryCalls {
		labels.Conversation = fmt.Sprintf("%s-%d", service, i)
		call := load.Chat(labels, []json.RawMessage{load.Message("user", "Book the order."), load.Message("assistant", ""), load.Marshal(load.Object{
			"role": "tool", "tool_call_id": "call_1", "content": "booked",
		})}, load.Message("assistant", "done"))
		call.Instance, call.Status, call.Response = service, http.StatusBadRequest, []byte(load.OrphanReply)
		for _, e := range call.Events(&seq) {
			if err := c.pub.Publish(ctx, e); err != nil {
				return err
			}
		}
	}
	return c.pub.Flush(ctx)
}

// wait waits until the alerts of all failing services have arrived, for at most d.
func (c *canary) wait(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; wait(ctx, pollEvery) {
		if _, missing := c.took(time.Time{}, time.Now()); missing == 0 {
			return
		}
	}
}

// took returns the times of the alerts of services that began to fail between two times, and the number of alerts that have not
// arrived.
func (c *canary) took(from, to time.Time) (took []time.Duration, missing int) {
	c.receiver.mu.Lock()
	defer c.receiver.mu.Unlock()
	for service, begun := range c.begun {
		fired, ok := c.receiver.fired[service]
		switch {
		case begun.Before(from) || !begun.Before(to):
		case ok:
			took = append(took, fired.Sub(begun))
		default:
			missing++
		}
	}
	return took, missing
}
