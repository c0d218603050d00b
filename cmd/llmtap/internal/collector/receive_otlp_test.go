package collector

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The role receive stores spans that arrive over HTTP and gRPC with the token. Spans that arrive again are stored once.
func TestReceiveOTLP(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *config.Config) { cfg.Roles, cfg.Receive.Token = []string{config.RoleReceive}, "s3cret" })
	collectortest.RunReady(t, c)
	spans := must.Get(os.ReadFile("../../../../ingest/otlp/testdata/traceloop.json"))(t)
	post := func(token string, code int) {
		t.Helper()
		q := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, c.receive.url()+"/v1/traces", bytes.NewReader(spans)))(t)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Authorization", "Bearer "+token)
		resp := must.Get(http.DefaultClient.Do(q))(t)
		defer resp.Body.Close()
		text := must.Get(io.ReadAll(resp.Body))(t)
		must.Equal(t, resp.StatusCode, code, "token %s: %s", token, text)
	}
	post("wrong", 401)
	post("s3cret", 200)

	conn := must.Get(grpc.NewClient(c.receive.otlp.listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	q := ptraceotlp.NewExportRequest()
	must.Do(t, q.UnmarshalJSON(spans))
	if _, err := ptraceotlp.NewGRPCClient(conn).Export(t.Context(), q); grpcstatus.Code(err) != codes.Unauthenticated {
		t.Errorf("without the token: %v", err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer s3cret")
	must.Get(ptraceotlp.NewGRPCClient(conn).Export(ctx, q))(t)

	nc := must.Get(nats.Connect(c.NATSURL(), nats.Token(collectortest.CollectorToken)))(t)
	defer nc.Close()
	js := must.Get(natsjs.New(nc))(t)
	got := map[string]int{}
	err := collectortest.ReplayStream(t.Context(), js, event.StreamEvents, func(m natsjs.Msg, _ *natsjs.MsgMetadata) error {
		events, err := event.DecodeAll(m.Subject(), event.Header(m.Headers()), m.Data())
		for _, e := range events {
			got[e.Origin+" "+e.Kind.String()+" "+e.Capture]++
			if strings.Contains(string(e.Body), "You are careful") {
				t.Errorf("a text was published: %s", e.Body)
			}
		}
		return err
	})
	if err != nil || len(got) != 2 || got["otlp request shape"] != 7 || got["otlp response shape"] != 7 {
		t.Errorf("%v, %v", got, err)
	}
}
