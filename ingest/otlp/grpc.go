package otlp

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // exporters may compress
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/secret"
)

const (
	maxMessage = 16 << 20         // bytes of a payload over gRPC after decompression
	maxCalls   = 16               // payloads over gRPC in progress
	maxHeaders = 64 << 10         // bytes of the headers of a call
	drain      = 10 * time.Second // grace period for them on shutdown
)

// metricsMethod is the method to which exporters send metrics. Its service is not registered, because requests and
// responses need not be decoded.
const metricsMethod = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

// ServeGRPC serves OTLP over gRPC until ctx ends. If there are tokens, each call needs one as authorization: Bearer.
func (r *Receiver) ServeGRPC(ctx context.Context, l net.Listener, tokens secret.Tokens) error {
	g := &gate{tokens: tokens}
	s := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxCalls), grpc.InTapHandle(g.admit), grpc.StatsHandler(g), grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}),
		grpc.MaxHeaderListSize(maxHeaders), grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 15 * time.Minute, Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.UnknownServiceHandler(r.unknown),
	)
	ptraceotlp.RegisterGRPCServer(s, &traceService{r: r})
	plogotlp.RegisterGRPCServer(s, &logService{r: r})
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		late := time.AfterFunc(drain, s.Stop)
		defer late.Stop()
		s.GracefulStop()
	})
	err := s.Serve(l)
	if !stop() {
		<-stopped
		return nil
	}
	return err
}

// unknown serves the methods of other services: it accepts and drops metrics.
func (r *Receiver) unknown(_ any, stream grpc.ServerStream) error {
	if method, _ := grpc.MethodFromServerStream(stream); method != metricsMethod {
		return status.Errorf(codes.Unimplemented, "%s is not supported: send traces and logs", method)
	}
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
		return err
	}
	r.metricsArrived()
	return stream.SendMsg(&emptypb.Empty{})
}

// A gate admits calls with the token, and at most maxCalls at a time, before their payloads are read.
type gate struct {
	tokens secret.Tokens
	active atomic.Int64
}

func (g *gate) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	if g.tokens.Required() && !hasToken(info.Header, g.tokens) {
		return nil, status.Error(codes.Unauthenticated, "metadata authorization: Bearer with the token of receive.token is required")
	}
	if g.active.Load() >= maxCalls {
		return nil, status.Error(codes.Unavailable, "too many payloads are in progress; retry")
	}
	return ctx, nil
}

func hasToken(md metadata.MD, tokens secret.Tokens) bool {
	for _, v := range md.Get("authorization") {
		if scheme, sent, _ := strings.Cut(v, " "); strings.EqualFold(scheme, "Bearer") && tokens.Accept(sent) {
			return true
		}
	}
	return false
}

// HandleRPC implements stats.Handler.
func (g *gate) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.Begin:
		g.active.Add(1)
	case *stats.End:
		g.active.Add(-1)
	}
}

// TagRPC implements stats.Handler.
func (g *gate) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (g *gate) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (g *gate) HandleConn(context.Context, stats.ConnStats) {}

type traceService struct {
	ptraceotlp.UnimplementedGRPCServer
	r *Receiver
}

// Export implements ptraceotlp.GRPCServer.
func (s *traceService) Export(ctx context.Context, q ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	n := (1 + decoded) * int64((&ptrace.ProtoMarshaler{}).TracesSize(q.Traces()))
	if !s.r.o.Budget.Take(n) {
		return ptraceotlp.NewExportResponse(), s.r.refusal(signalTraces, httpbody.ErrBehind)
	}
	defer s.r.o.Budget.Release(n)
	answer, err := s.r.traces(ctx, q.Traces())
	return answer, s.r.refusal(signalTraces, err)
}

type logService struct {
	plogotlp.UnimplementedGRPCServer
	r *Receiver
}

// Export implements plogotlp.GRPCServer.
func (s *logService) Export(ctx context.Context, q plogotlp.ExportRequest) (plogotlp.ExportResponse, error) {
	n := (1 + decoded) * int64((&plog.ProtoMarshaler{}).LogsSize(q.Logs()))
	if !s.r.o.Budget.Take(n) {
		return plogotlp.NewExportResponse(), s.r.refusal(signalLogs, httpbody.ErrBehind)
	}
	defer s.r.o.Budget.Release(n)
	answer, err := s.r.logs(ctx, q.Logs())
	return answer, s.r.refusal(signalLogs, err)
}

// refusal returns the gRPC status of err. Exporters retry RESOURCE_EXHAUSTED only if it contains RetryInfo.
func (r *Receiver) refusal(signal string, err error) error {
	if err == nil {
		return nil
	}
	s, _ := r.status(signal, err)
	if d, failed := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}); failed == nil {
		s = d
	}
	return s.Err()
}
