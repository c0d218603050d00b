package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // of the bomb
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var (
	onProxy = []string{"proxy"}
	onGRPC  = []string{"grpc"}
)

// proxyAttacks try to reach something other than the upstreams through the proxy, or to exhaust it.
var proxyAttacks = []attack{
	{
		name: "a URL instead of the name of an upstream", listeners: onProxy, short: true, want: "40[345](, 40[345])*",
		run: func(w *attackWorld, _ string) string {
			host := strings.TrimPrefix(w.canary.URL, "http://")
			return each([]string{
				"GET http://" + host + "/x HTTP/1.1\r\nHost: 127.0.0.1", "GET http://" + host + "/x HTTP/1.1\r\nHost: " + host,
				"GET //" + host + "/x HTTP/1.1\r\nHost: 127.0.0.1",
				"GET /http://" + host + "/x HTTP/1.1\r\nHost: 127.0.0.1", "GET /up@" + host + "/x HTTP/1.1\r\nHost: 127.0.0.1",
				"GET /@" + host + "/x HTTP/1.1\r\nHost: 127.0.0.1",
				"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Llmtap-Upstream: " + host,
				"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Llmtap-Upstream: http://" + host,
				"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Llmtap-Upstream: ../" + host, "GET /up.evil.example/x HTTP/1.1\r\nHost: 127.0.0.1",
				"GET /169.254.169.254/latest/meta-data/ HTTP/1.1\r\nHost: 127.0.0.1",
				"GET http://169.254.169.254/latest/meta-data/ HTTP/1.1\r\nHost: 169.254.169.254",
				"GET /metadata.google.internal/computeMetadata/v1/ HTTP/1.1\r\nHost: 127.0.0.1\r\nMetadata-Flavor: Google",
				"CONNECT " + host + " HTTP/1.1\r\nHost: 127.0.0.1",
			}, func(line string) string {
				return w.plain.send(w.T, "proxy", line+"\r\nConnection: close\r\n\r\n", 5*time.Second)
			})
		},
	},
	{
		name: "a path or headers that name another host", listeners: onProxy, short: true, want: "only the upstream",
		run: func(w *attackWorld, _ string) string {
			host := strings.TrimPrefix(w.canary.URL, "http://")
			for _, path := range []string{"/up//" + host + "/x", "/up/@" + host + "/x", "/up/http://" + host + "/x", "/up/%2f%2f" + host + "/x", "/up/;@" + host, "/up?@" + host} {
				r := w.plain.do(w.T, "proxy", http.MethodGet, path, "", http.Header{
					"X-Forwarded-Host": {host}, "Forwarded": {"host=" + host}, "X-Original-Url": {w.canary.URL},
					"X-Rewrite-Url": {w.canary.URL}, "Host": {"127.0.0.1"},
				})
				if strings.Contains(r.body, "reached") {
					return path + " has reached another host"
				}
			}
			return "only the upstream"
		},
	},
	{
		name: "the upstream redirects to the metadata service", listeners: onProxy, short: true,
		want: "the redirect is returned, not followed",
		run: func(w *attackWorld, _ string) string {
			r := w.plain.do(w.T, "proxy", http.MethodPost, "/up/v1/redirect", "{}", nil)
			if r.code != http.StatusTemporaryRedirect || r.body == "reached" {
				return r.status()
			}
			return "the redirect is returned, not followed"
		},
	},
	{
		name: "upgrade to another protocol", listeners: onProxy, want: "501",
		run: func(w *attackWorld, _ string) string {
			return w.plain.send(w.T, "proxy", "GET /up/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 5*time.Second)
		},
	},
	{
		name: "the upstream answers with a gzip bomb of 512 MB, as an answer and as an error", listeners: onProxy, short: true,
		want: "forwarded as it is; memory is bounded",
		run: func(w *attackWorld, _ string) string {
			for _, path := range []string{"/up/bomb/v1/chat/completions", "/up/bomb/error/v1/chat/completions", "/up/bomb/error/v1/messages"} {
				h := http.Header{"Accept-Encoding": {"gzip"}, "Content-Type": {"application/json"}}
				r := w.plain.do(w.T, "proxy", http.MethodPost, path, `{"model":"gpt-5","messages":[{"role":"user","content":"x"}]}`, h)
				if len(r.body) != len(w.upstream.bomb) {
					return fmt.Sprintf("%s: %d, %d bytes", path, r.code, len(r.body))
				}
			}
			return w.plain.survives(w.T, "forwarded as it is; memory is bounded")
		},
	},
	{
		name: "a request of 200 MB", listeners: onProxy, want: "forwarded; memory is bounded",
		run: func(w *attackWorld, _ string) string {
			req := must.Get(http.NewRequestWithContext(w.Context(), http.MethodPost, "http://"+w.plain.addr["proxy"]+"/up/v1/chat/completions", io.LimitReader(zeros{}, 200<<20)))(w)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err.Error()
			}
			_ = resp.Body.Close()
			return w.plain.survives(w.T, "forwarded; memory is bounded")
		},
	},
	{
		name: "the headers of the proxy and of the connection, token included", listeners: onProxy, short: true, want: "not forwarded",
		run: func(w *attackWorld, _ string) string {
			h := http.Header{"X-Llmtap-Service": {"checkout-agent"}, "X-Forwarded-For": {"10.0.0.1"}, "Proxy-Authorization": {"Basic eA=="}, "Connection": {"X-Hop"}, "X-Hop": {"hop"}}
			r := w.secured.do(w.T, "proxy", http.MethodPost, "/up/v1/headers", "{}", h)
			for _, s := range []string{proxyToken, "checkout-agent", "10.0.0.1", "Proxy-Authorization", "hop"} {
				if r.code != http.StatusOK || strings.Contains(r.body, s) {
					return fmt.Sprintf("%d, the upstream has received %s", r.code, s)
				}
			}
			return "not forwarded"
		},
	},
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// otlpAttacks are those of OpenTelemetry's receiver over gRPC.
var otlpAttacks = []attack{
	{
		name: "no token, a wrong one", listeners: onGRPC, short: true, want: "Unauthenticated",
		run: func(w *attackWorld, _ string) string {
			return each([]string{"", "wrong", httpToken, "sha256:00"}, func(token string) string {
				return w.export(w.secured, token, ptrace.NewTraces())
			})
		},
	},
	{
		name: "an unknown method, reflection", listeners: onGRPC, want: "Unimplemented",
		run: func(w *attackWorld, _ string) string {
			conn := w.grpc(w.plain)
			return each([]string{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/x/y", "/opentelemetry.proto.collector.trace.v1.TraceService/Delete"}, func(method string) string {
				var out rawMessage
				err := conn.Invoke(w.Context(), method, rawMessage{}, &out, grpc.ForceCodec(rawCodec{}))
				return status.Code(err).String()
			})
		},
	},
	{
		name: "a message of 64 MB", listeners: onGRPC, short: true, want: "InvalidArgument",
		run: func(w *attackWorld, _ string) string { return w.exportRaw(make([]byte, 64<<20)) },
	},
	{
		name: "a gzip bomb of 64 MB", listeners: onGRPC, short: true, want: "InvalidArgument",
		run: func(w *attackWorld, _ string) string {
			return w.exportRaw(make([]byte, 64<<20), grpc.UseCompressor("gzip"))
		},
	},
	{
		name: "malformed and deeply nested messages", listeners: onGRPC, short: true, want: "InvalidArgument",
		run: func(w *attackWorld, _ string) string {
			return distinct([]string{w.exportRaw([]byte("\xff\xff\xff\xff\x0f")), w.exportRaw([]byte(strings.Repeat("\x0a\xff\x01", 1_000_000)))})
		},
	},
}

// grpc returns a connection to the receiver over gRPC.
func (w *attackWorld) grpc(c *target) *grpc.ClientConn {
	creds := insecure.NewCredentials()
	if c.tls != nil {
		creds = credentials.NewTLS(c.tls.Clone())
	}
	conn := must.Get(grpc.NewClient(c.addr["grpc"], grpc.WithTransportCredentials(creds)))(w)
	w.Cleanup(func() { _ = conn.Close() })
	return conn
}

// export exports spans with a token, and returns the code of the answer.
func (w *attackWorld) export(c *target, token string, traces ptrace.Traces) string {
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Minute)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	_, err := ptraceotlp.NewGRPCClient(w.grpc(c)).Export(ctx, ptraceotlp.NewExportRequestFromTraces(traces))
	return status.Code(err).String()
}

// exportRaw exports bytes as spans and as log records, and returns the codes of the answers.
func (w *attackWorld) exportRaw(message []byte, opts ...grpc.CallOption) string {
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Minute)
	defer cancel()
	conn := w.grpc(w.plain)
	return each([]string{
		"/opentelemetry.proto.collector.trace.v1.TraceService/Export", "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
	}, func(method string) string {
		var out rawMessage
		err := conn.Invoke(ctx, method, rawMessage(message), &out, append(opts, grpc.ForceCodec(rawCodec{}))...)
		return status.Code(err).String()
	})
}

// A rawMessage is sent as it is.
type rawMessage []byte

type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) {
	m, ok := v.(rawMessage)
	if !ok {
		return nil, errors.New("not a rawMessage")
	}
	return m, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	if m, ok := v.(*rawMessage); ok {
		*m = append((*m)[:0], data...)
	}
	return nil
}

func (rawCodec) Name() string { return "proto" }
