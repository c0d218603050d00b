package spans

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/price"
)

const (
	maxSpans     = 8192 // that wait, besides those being sent
	maxSend      = 1024 // spans at which a batch is sent at once
	interval     = 2 * time.Second
	timeout      = 15 * time.Second // of a request
	drainTimeout = 3 * time.Second  // for the last batch
	maxBackoff   = time.Minute
	logInterval  = time.Minute // of refusals
)

// An Exporter sends calls to an endpoint of OpenTelemetry. Its methods are safe for concurrent use.
type Exporter struct {
	url      string
	header   http.Header
	client   *http.Client
	logger   *slog.Logger
	due      chan struct{} // capacity 1: maxSend spans wait
	exported prometheus.Counter
	dropped  *prometheus.CounterVec

	refusedAt time.Time // when a refusal was last logged; used by Run only

	mu      sync.Mutex // guards the fields below
	filling *batch
	prices  *price.Lookup
}

// Values of the label reason of dropped spans.
const (
	reasonFull     = "queue_full"
	reasonRefused  = "refused"
	reasonShutdown = "shutdown"
)

// New returns an exporter for a valid configuration with a URL.
func New(cfg Config, prices price.Table, logger *slog.Logger, reg prometheus.Registerer) (*Exporter, error) {
	h, err := cfg.header()
	if err != nil {
		return nil, err
	}
	h.Set("Content-Type", "application/x-protobuf")
	h.Set("Content-Encoding", "gzip")
	f := promauto.With(reg)
	e := &Exporter{
		url: cfg.URL, header: h, logger: logger, due: make(chan struct{}, 1), filling: newBatch(), prices: price.NewLookup(prices),
		// A redirect could take the headers, which are secrets, to another host.
		client:   &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		exported: f.NewCounter(prometheus.CounterOpts{Name: "llmtap_sinks_spans_exported_total", Help: "Spans that the endpoint of traces.url accepted."}),
		dropped:  f.NewCounterVec(prometheus.CounterOpts{Name: "llmtap_sinks_spans_dropped_total", Help: "Spans not exported, by reason. Their calls are stored."}, []string{"reason"}),
	}
	for _, r := range []string{reasonFull, reasonRefused, reasonShutdown} {
		e.dropped.WithLabelValues(r)
	}
	return e, nil
}

// Check sends a request without spans.
func (e *Exporter) Check(ctx context.Context) error {
	body, err := encode(newBatch())
	if err == nil {
		_, _, err = e.post(ctx, body)
	}
	return err
}

// Add exports the calls and findings of rows. It never waits. A nil Exporter exports nothing.
func (e *Exporter) Add(rows *analyzer.Output) {
	if e == nil || len(rows.Exchanges)+len(rows.Findings) == 0 {
		return
	}
	about := map[string][]analyzer.Finding{}
	for i := range rows.Findings {
		f := &rows.Findings[i]
		about[f.Exchange] = append(about[f.Exchange], *f)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range rows.Exchanges {
		x := &rows.Exchanges[i]
		findings := about[x.ID]
		if delete(about, x.ID); exported(x.Origin) && e.room() {
			e.filling.call(x, findings, dollars(x, e.prices))
		}
	}
	for i := range rows.Findings {
		if f := &rows.Findings[i]; about[f.Exchange] != nil && e.room() {
			e.filling.finding(f)
		}
	}
	if e.filling.spans >= maxSend {
		select {
		case e.due <- struct{}{}:
		default:
		}
	}
}

// room reports whether a span may be added, and counts it if not.
func (e *Exporter) room() bool {
	if e.filling.spans < maxSpans {
		return true
	}
	e.dropped.WithLabelValues(reasonFull).Inc()
	return false
}

// Run sends spans until ctx ends, and then the last ones within drainTimeout.
func (e *Exporter) Run(ctx context.Context) {
	for last := false; !last; {
		select {
		case <-e.due:
		case <-time.After(interval):
		case <-ctx.Done():
			last = true
		}
		b := e.take()
		if b.spans == 0 {
			continue
		}
		sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(drainTimeout, cancel) })
		e.send(ctx, sending, b)
		stop()
		cancel()
	}
}

func (e *Exporter) take() *batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.filling
	e.filling = newBatch()
	return b
}

// send sends b until the endpoint accepts or refuses it, or ctx ends. The last request ends with sending.
func (e *Exporter) send(ctx, sending context.Context, b *batch) {
	body, err := encode(b)
	if err != nil {
		e.refuse(b.spans, reasonRefused, err)
		return
	}
	wait := backoff.NewExponentialBackOff()
	wait.MaxInterval = maxBackoff
	for failing := false; ; failing = true {
		rejected, after, err := e.post(sending, body)
		if err == nil {
			e.exported.Add(float64(b.spans - rejected))
			if failing {
				e.logger.Info("spans are exported again")
			}
			return
		}
		if after < 0 {
			e.refuse(b.spans, reasonRefused, err)
			return
		}
		if !failing {
			e.logger.Warn("spans are not exported for now; further ones wait, or are dropped", "err", err)
		}
		select {
		case <-time.After(max(after, wait.NextBackOff())):
		case <-ctx.Done():
			e.refuse(b.spans, reasonShutdown, err)
			return
		}
	}
}

func (e *Exporter) refuse(spans int, reason string, err error) {
	e.dropped.WithLabelValues(reason).Add(float64(spans))
	if now := time.Now(); now.Sub(e.refusedAt) >= logInterval {
		e.refusedAt = now
		e.logger.Error("spans are not exported", "spans", spans, "err", err)
	}
}

func encode(b *batch) ([]byte, error) {
	raw, err := new(ptrace.ProtoMarshaler).MarshalTraces(b.traces) // package ptraceotlp links grpc-go
	if err != nil {
		return nil, fmt.Errorf("encode spans: %w", err)
	}
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, err = w.Write(raw)
	err = errors.Join(err, w.Close())
	return buf.Bytes(), err
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 10

// post sends a request. It returns how many spans were rejected or, with an error, the time after which it may be sent again, which is
// negative if that is useless. Errors do not have the URL, which may be secret, but its host.
func (e *Exporter) post(ctx context.Context, body []byte) (rejected int, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return 0, -1, errors.New("the URL is invalid")
	}
	req.Header = e.header
	resp, err := e.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return 0, 0, fmt.Errorf("send spans to %s: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // an answer that ends early says no more
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return 0, min(time.Duration(max(seconds, 0))*time.Second, maxBackoff), fmt.Errorf("send spans to %s: %s", req.URL.Host, resp.Status)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return 0, -1, fmt.Errorf("send spans to %s: %s: %.200q", req.URL.Host, resp.Status, answer)
	}
	if rejected = rejectedSpans(answer); rejected > 0 {
		e.refuse(rejected, reasonRefused, fmt.Errorf("%s accepts not all: %.200q", req.URL.Host, answer))
	}
	return rejected, 0, nil
}

// rejectedSpans returns partial_success.rejected_spans of an ExportTraceServiceResponse, or 0: not all endpoints answer with one.
func rejectedSpans(answer []byte) int {
	number, wire, n := protowire.ConsumeTag(answer)
	if n < 0 || number != 1 || wire != protowire.BytesType {
		return 0
	}
	partly, n := protowire.ConsumeBytes(answer[n:])
	if n < 0 {
		return 0
	}
	if number, wire, n = protowire.ConsumeTag(partly); n < 0 || number != 1 || wire != protowire.VarintType {
		return 0
	}
	rejected, n := protowire.ConsumeVarint(partly[n:])
	if n < 0 || rejected > maxSpans {
		return 0
	}
	return int(rejected)
}
