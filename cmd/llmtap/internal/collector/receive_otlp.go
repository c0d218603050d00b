package collector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/otlp"
)

// otlpReceiver receives OpenTelemetry's spans and log records: over HTTP with the other receivers, and over gRPC.
type otlpReceiver struct {
	*otlp.Receiver
	c        *Collector
	listener net.Listener // nil if there is none
}

// openOTLP adds the receiver of OpenTelemetry to the mux, and opens its listener for gRPC.
func (r *receiveRole) openOTLP(ctx context.Context) error {
	c, cfg := r.c, r.c.cfg.Receive
	r.otlp.c = c
	r.otlp.Receiver = otlp.New(
		otlp.Config{Capture: cfg.OTLPCapture, KeepUser: cfg.OTLPKeepUser, Key: []byte(c.key.text)},
		otlp.Options{Publish: r.publish, Remember: r.storeSpans, Recall: r.readSpans, Budget: r.budget, Logger: c.logger}, c.reg,
	)
	r.otlp.Register(r.mux)
	if cfg.GRPCListen == "" {
		return nil
	}
	l, err := c.listen(ctx, cfg.GRPCListen)
	switch {
	case err == nil:
		r.otlp.listener = l
		c.onClose(func() { _ = l.Close() }) // error ignored: the server may have closed it already
	case errors.Is(err, syscall.EADDRINUSE) && cfg.GRPCListen == config.Default().Receive.GRPCListen && len(c.cfg.Roles) > 1:
		// As the port for HTTP, this is that of every OpenTelemetry collector.
		c.logger.Warn("no spans are received over gRPC: the default address is in use, perhaps by an OpenTelemetry collector",
			"address", cfg.GRPCListen, "fix", "choose another address with --receive-grpc-listen")
	default:
		return fmt.Errorf("listen on %s: %w; choose another address with --receive-grpc-listen, or omit receive from --roles", cfg.GRPCListen, err)
	}
	return nil
}

// storeSpans stores what is known of spans. See jetstream.Conn.StoreSpans.
func (r *receiveRole) storeSpans(ctx context.Context, payload []byte) error {
	if err := r.c.natsFailure(); err != nil {
		return err
	}
	return r.c.conn.Load().StoreSpans(ctx, payload)
}

// readSpans reads what is known of spans. See jetstream.Conn.ReadSpans.
func (r *receiveRole) readSpans(ctx context.Context, fn func(payload []byte)) error {
	if err := r.c.natsFailure(); err != nil {
		return err
	}
	return r.c.conn.Load().ReadSpans(ctx, fn)
}

// url returns the URL of the receiver over gRPC; "" if it does not listen.
func (r *otlpReceiver) url() string {
	if r.listener == nil {
		return ""
	}
	return r.c.localURL(r.listener)
}

// describeOTLP returns the rows of the banner about OpenTelemetry.
func (r *receiveRole) describeOTLP() (rows [][2]string) {
	if r.listener != nil {
		rows = append(rows, [2]string{overOTLP, "export OTEL_EXPORTER_OTLP_ENDPOINT=" + r.c.localURL(r.listener)})
	}
	if url := r.otlp.url(); url != "" {
		rows = append(rows, [2]string{"", "over gRPC: " + url})
	}
	return rows
}
