package main

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const (
	alertSeed = 10
	// A stage makes 20 successful calls before seven fail. Without the first 5 failures, 2 of 27 are below 10%, and the
	// eighth failure crosses it.
	successfulCalls, earlyFailures = 20, 7
	// failLead is the time from the first call of a stage to the crossing. The early failures are a step earlier.
	failLead = 12 * time.Second
	// failInterval is the interval of the calls of a firing stage; one in four fails, so that the alert stays a warning.
	failInterval = 2 * time.Second
	// answerTime is the duration of a failing call.
	answerTime = 300 * time.Millisecond
	// loadServices is the number of services of the background load and of the failing stages.
	loadServices = 50
)

// An alertLoad is a fleet that publishes as hooks do: every service is an instance that numbers its events.
type alertLoad struct {
	t      *testing.T
	watch  *alertWatch
	pub    *jetstream.Publisher
	rnd    *rand.Rand
	plan   plan
	seqs   map[string]uint64 // by service
	normal map[string]int    // background calls by service and stage
	calls  int
	took   time.Duration
}

func newAlertLoad(t *testing.T, natsURL string, w *alertWatch) *alertLoad {
	t.Helper()
	conn := collectortest.ConnectNATS(t, natsURL, nil)
	return &alertLoad{t: t, watch: w, pub: conn.NewPublisher(0), rnd: rand.New(rand.NewPCG(alertSeed, 1)), seqs: map[string]uint64{}, normal: map[string]int{}}
}

// run publishes until the alert of the last stage is expected.
func (l *alertLoad) run(t *testing.T, rate int, every time.Duration) {
	t.Helper()
	start := time.Now()
	spread := max(time.Duration(len(l.watch.stages))*every, time.Second)
	end := start.Add(failLead + spread + 2**alertSteps)
	for _, s := range l.watch.stages {
		l.fail(s, start.Add(failLead+time.Duration(l.rnd.Int64N(int64(spread)))))
	}
	for i := range rate { // each of these calls once per second
		l.plan.add(start.Add(time.Duration(i)*time.Second/time.Duration(rate)), l.background)
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
	must.Do(t, l.pub.Flush(t.Context()))
}

// background publishes a call and schedules the next one. One call in a hundred of each stage fails.
func (l *alertLoad) background(now time.Time) {
	l.plan.add(now.Add(time.Second), l.background)
	service, stage := fmt.Sprintf("fleet-%02d", l.rnd.IntN(loadServices)), []string{"writer", "executor"}[l.rnd.IntN(2)]
	q, s := l.exchange(service, stage)
	if l.normal[service+stage]++; l.normal[service+stage]%100 == 50 {
		s.Status, s.Body = 503, []byte(`{"error":{"message":"The server is overloaded or not ready yet.","type":"server_error"}}`)
	}
	l.publish(q)
	l.plan.add(now.Add(200*time.Millisecond+time.Duration(l.rnd.Int64N(int64(2*time.Second)))), func(time.Time) { l.publish(s) })
}

// fail schedules the calls of a stage that crosses 10% at a time and continues to fail.
func (l *alertLoad) fail(s *failingStage, at time.Time) {
	for i := range successfulCalls {
		l.plan.add(at.Add(-failLead+time.Duration(i)*200*time.Millisecond), func(now time.Time) { l.call(s, false, now, nil) })
	}
	for i := range earlyFailures {
		l.plan.add(at.Add(-7*time.Second+time.Duration(i)*200*time.Millisecond), func(now time.Time) { l.call(s, true, now, nil) })
	}
	l.plan.add(at.Add(-answerTime), func(now time.Time) {
		l.call(s, true, now, func(exchange string) { l.watch.cross(s, exchange) })
	})
	calls := 0
	var next func(now time.Time)
	next = func(now time.Time) {
		l.plan.add(now.Add(failInterval), next)
		calls++
		l.call(s, calls%4 == 0, now, nil)
	}
	l.plan.add(at.Add(failInterval), next)
}

// call publishes a call of a failing stage; answered is called before its response is published.
func (l *alertLoad) call(s *failingStage, fails bool, now time.Time, answered func(exchange string)) {
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

// exchange returns a call in a new conversation: a history of about 4 KB that ends in a tool reply, and its response.
func (l *alertLoad) exchange(service, stage string) (q, s *event.Event) {
	both := collectortest.Exchange(10*l.calls, 4<<10)
	l.calls++
	id := must.Get(uuid.NewV7())(l.t)
	for _, e := range both {
		e.Exchange, e.Instance = id.String(), "of "+service
		e.Labels.Service, e.Labels.Stage, e.Labels.Environment, e.Labels.Agent = service, stage, "prod", stage
	}
	return both[0], both[1]
}

func (l *alertLoad) publish(e *event.Event) {
	l.seqs[e.Labels.Service]++
	e.Seq, e.Time, e.BodyBytes, e.Part, e.Parts = l.seqs[e.Labels.Service], time.Now(), len(e.Body), 1, 1
	must.Do(l.t, l.pub.Publish(l.t.Context(), e))
}

// A plan is scheduled actions, the next one first.
type plan struct{ queue actions }

type action struct {
	at time.Time
	do func(now time.Time)
}

func (p *plan) add(at time.Time, do func(now time.Time)) { heap.Push(&p.queue, action{at, do}) }

// next returns the time of the next action; a plan is never empty.
func (p *plan) next() time.Time { return p.queue[0].at }

func (p *plan) take() func(now time.Time) { return heap.Pop(&p.queue).(action).do }

// actions implements heap.Interface.
type actions []action

func (d actions) Len() int           { return len(d) }
func (d actions) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d actions) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *actions) Push(x any)        { *d = append(*d, x.(action)) }

func (d *actions) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}
