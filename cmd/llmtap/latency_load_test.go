package main

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
)

const (
	alertSeed = 10
	// A stage makes this many good calls before two fail: 2 of 22 are below 10 %, the third failure crosses it.
	soundCalls = 20
	// failLead is how long before the crossing a stage begins. The two failures come a step earlier.
	failLead = 12 * time.Second
	// failOn is how often a stage that fires calls on; each fourth of these calls fails, so that it stays a warning.
	failOn = 2 * time.Second
	// answerTime is how long a failing call takes.
	answerTime = 300 * time.Millisecond
	// fullServices share the background, and the stages that fail.
	fullServices = 50
)

// An alertLoad is a fleet that publishes as hooks do: every service is a process that numbers its events.
type alertLoad struct {
	t      *testing.T
	watch  *alertWatch
	pub    *jetstream.Publisher
	rnd    *rand.Rand
	plan   plan
	seqs   map[string]uint64 // by service
	usuals map[string]int    // calls of the background, by place
	calls  int
	took   time.Duration
}

func newAlertLoad(t *testing.T, natsURL string, w *alertWatch) *alertLoad {
	t.Helper()
	cfg := jetstream.Default()
	cfg.URL = natsURL
	conn, err := jetstream.Connect(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return &alertLoad{t: t, watch: w, pub: conn.NewPublisher(0), rnd: rand.New(rand.NewPCG(alertSeed, 1)), seqs: map[string]uint64{}, usuals: map[string]int{}}
}

// run publishes until a while after the last stage has crossed.
func (l *alertLoad) run(t *testing.T, rate int, every time.Duration) {
	t.Helper()
	start := time.Now()
	spread := time.Duration(len(l.watch.stages)) * every
	end := start.Add(failLead + spread + 2**alertSteps)
	for _, s := range l.watch.stages {
		l.fail(s, start.Add(failLead+time.Duration(l.rnd.Int64N(int64(spread)))))
	}
	for i := range rate { // each of these calls once a second
		l.plan.add(start.Add(time.Duration(i)*time.Second/time.Duration(rate)), l.usual)
	}
	for {
		now := time.Now()
		if now.After(end) {
			break
		}
		if next := l.plan.next(); next.After(now) {
			time.Sleep(next.Sub(now))
			continue
		}
		l.plan.take()(now)
	}
	l.took = time.Since(start)
	if err := l.pub.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// usual is a call of the fleet that goes well, but for one in a hundred of each place, and the next one.
func (l *alertLoad) usual(now time.Time) {
	l.plan.add(now.Add(time.Second), l.usual)
	service, stage := fmt.Sprintf("fleet-%02d", l.rnd.IntN(fullServices)), []string{"writer", "executor"}[l.rnd.IntN(2)]
	q, s := l.exchange(service, stage)
	if l.usuals[service+stage]++; l.usuals[service+stage]%100 == 50 {
		s.Status, s.Body = 503, []byte(`{"error":{"message":"The server is overloaded or not ready yet.","type":"server_error"}}`)
	}
	l.publish(q)
	l.plan.add(now.Add(200*time.Millisecond+time.Duration(l.rnd.Int64N(int64(2*time.Second)))), func(time.Time) { l.publish(s) })
}

// fail plans that a stage crosses 10 % at a time, and goes on.
func (l *alertLoad) fail(s *failingStage, at time.Time) {
	for i := range soundCalls {
		l.plan.add(at.Add(-failLead+time.Duration(i)*200*time.Millisecond), func(now time.Time) { l.of(s, false, now, nil) })
	}
	for i := range 2 {
		l.plan.add(at.Add(-7*time.Second+time.Duration(i)*200*time.Millisecond), func(now time.Time) { l.of(s, true, now, nil) })
	}
	l.plan.add(at.Add(-answerTime), func(now time.Time) {
		l.of(s, true, now, func(exchange string) { l.watch.cross(s, exchange) })
	})
	calls := 0
	var on func(now time.Time)
	on = func(now time.Time) {
		l.plan.add(now.Add(failOn), on)
		calls++
		l.of(s, calls%4 == 0, now, nil)
	}
	l.plan.add(at.Add(failOn), on)
}

// of is a call of a stage that fails, at some time; answered is called before its answer is published.
func (l *alertLoad) of(s *failingStage, fails bool, now time.Time, answered func(exchange string)) {
	q, a := l.exchange(s.service, s.stage)
	if fails {
		q.Body, _ = json.Marshal(map[string]any{"model": "gpt-4.1", "messages": []map[string]any{
			{"role": "user", "content": fmt.Sprint("book order ", l.calls)},
			{"role": "assistant", "content": ""},
			{"role": "tool", "tool_call_id": fmt.Sprint("call_", l.calls), "content": "booked"},
		}})
		a.Status, a.Body = 400, []byte(`{"error":{"message":"Messages with role 'tool' must be a response to a preceding message with 'tool_calls'","type":"invalid_request_error"}}`)
	}
	l.publish(q)
	l.plan.add(now.Add(answerTime), func(time.Time) {
		if answered != nil {
			answered(a.Exchange)
		}
		l.publish(a)
	})
}

// exchange is a call in a conversation of its own: a history of about 4 KB that ends in a tool reply, and its answer.
func (l *alertLoad) exchange(service, stage string) (q, s *event.Event) {
	both := collectortest.Exchange(10*l.calls, 4<<10)
	l.calls++
	id, err := uuid.NewV7()
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range both {
		e.Exchange, e.Instance = id.String(), "of "+service
		e.Labels.Service, e.Labels.Stage, e.Labels.Environment, e.Labels.Agent = service, stage, "prod", stage
	}
	return both[0], both[1]
}

func (l *alertLoad) publish(e *event.Event) {
	l.seqs[e.Labels.Service]++
	e.Seq, e.Time, e.BodyBytes, e.Part, e.Parts = l.seqs[e.Labels.Service], time.Now(), len(e.Body), 1, 1
	if err := l.pub.Publish(l.t.Context(), e); err != nil {
		l.t.Fatal(err)
	}
}

// A plan is what to do when, the next first.
type plan struct{ queue deeds }

type deed struct {
	at time.Time
	do func(now time.Time)
}

func (p *plan) add(at time.Time, do func(now time.Time)) { heap.Push(&p.queue, deed{at, do}) }

// next is when there is something to do; the plan has no end.
func (p *plan) next() time.Time { return p.queue[0].at }

func (p *plan) take() func(now time.Time) { return heap.Pop(&p.queue).(deed).do }

// deeds implements heap.Interface.
type deeds []deed

func (d deeds) Len() int           { return len(d) }
func (d deeds) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d deeds) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deeds) Push(x any)        { *d = append(*d, x.(deed)) }

func (d *deeds) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}
