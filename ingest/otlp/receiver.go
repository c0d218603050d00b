package otlp

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// decoded is the memory of a decoded payload and its events, in sizes of the payload. It is taken from the budget.
const decoded = 3

// Options are what a receiver shares with the other receivers of its listener.
type Options struct {
	// Publish stores events, as jetstream.Conn.PublishBatch.
	Publish func(ctx context.Context, events []*event.Event) ([]jetstream.Rejection, error)
	// Remember stores what the next process must remember, and Recall calls fn with all that is stored, oldest first.
	Remember func(ctx context.Context, data []byte) error
	Recall   func(ctx context.Context, fn func(data []byte)) error
	Budget   *httpbody.Budget
	Logger   *slog.Logger
}

// A Receiver serves OTLP over HTTP and gRPC.
type Receiver struct {
	o      Options
	mapper *Mapper
	m      *metrics
	once   sync.Once // for the message about metrics
	late   sync.Once // for the message about calls that are stored twice

	recalling sync.Mutex // guards recalled
	recalled  bool
}

// New returns a receiver for a valid configuration.
func New(cfg Config, o Options, reg prometheus.Registerer) *Receiver {
	return &Receiver{o: o, mapper: NewMapper(cfg), m: newMetrics(reg)}
}

func (r *Receiver) traces(ctx context.Context, td ptrace.Traces) (answer, error) {
	if err := r.recall(ctx); err != nil {
		return answer{}, err
	}
	res := r.mapper.Traces(td)
	for _, data := range res.memory.messages() {
		if err := r.o.Remember(ctx, data); err != nil {
			return answer{}, err
		}
	}
	err := r.publish(ctx, signalTraces, td.SpanCount(), &res)
	return answer{"rejectedSpans", res.Rejected, res.Why}, err
}

func (r *Receiver) logs(ctx context.Context, ld plog.Logs) (answer, error) {
	res := r.mapper.Logs(ld)
	err := r.publish(ctx, signalLogs, ld.LogRecordCount(), &res)
	return answer{"rejectedLogRecords", res.Rejected, res.Why}, err
}

// publish stores the events of res and counts what happened to the items of the payload.
func (r *Receiver) publish(ctx context.Context, signal string, items int, res *Result) error {
	started := time.Now()
	published := len(res.Events) / 2
	if published > 0 {
		rejections, err := r.o.Publish(ctx, res.Events)
		if err != nil {
			return err
		}
		last := -1
		for _, x := range rejections {
			if n := x.Index / 2; n != last { // the halves of a call follow each other
				last = n
				published--
				res.reject(x.Err.Error())
			}
		}
	}
	r.m.received.WithLabelValues(signal).Add(float64(items))
	r.m.published.WithLabelValues(signal).Add(float64(published))
	r.m.dropped.WithLabelValues(signal, dropSameCall).Add(float64(res.Wrappers))
	r.m.dropped.WithLabelValues(signal, dropOther).Add(float64(res.Others))
	r.m.dropped.WithLabelValues(signal, dropInvalid).Add(float64(res.Rejected))
	if res.Twice > 0 {
		r.m.twice.Add(float64(res.Twice))
		r.late.Do(func() {
			r.o.Logger.Warn("LLM calls with two spans are stored twice, because the span between both arrived last",
				"fix", "in the OpenTelemetry Collector, use the batch processor or sending_queue.num_consumers: 1", "metric", "llmtap_ingest_otlp_exchanges_twice_total")
		})
	}
	r.m.seconds.WithLabelValues(signal).Observe(time.Since(started).Seconds())
	return nil
}

// metricsArrived accepts and drops metrics. An exporter of all signals would otherwise log an error every minute.
func (r *Receiver) metricsArrived() {
	r.m.received.WithLabelValues(signalMetrics).Inc()
	r.m.dropped.WithLabelValues(signalMetrics, dropOther).Inc()
	r.once.Do(func() {
		r.o.Logger.Info("OpenTelemetry metrics are accepted and dropped, because spans contain the same", "fix", "OTEL_METRICS_EXPORTER=none")
	})
}
