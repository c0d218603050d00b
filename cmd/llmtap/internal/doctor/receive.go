package doctor

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/sinks/spans"
)

// checkReceive reports whether the running process receives events over HTTP.
func (c *checker) checkReceive(ctx context.Context) {
	const fix = "set receive.listen (--receive-listen) to another address, and LLMTAP_ENDPOINT of the hooks, or omit receive from roles"
	url := c.process.ReceiveURL
	switch {
	case !c.running || !slices.Contains(c.process.Roles, config.RoleReceive):
		return
	case url == "":
		c.warn("receive", fix, "%s was in use when llmtap started, perhaps by an OpenTelemetry collector: no events are received over HTTP", config.Default().Receive.Listen)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		c.fail("receive", fix, "%v", err)
		return
	}
	res, err := c.send(req)
	if err != nil {
		c.fail("receive", "see the log of llmtap up, and check firewalls", "%s does not answer: %v", url, err)
		return
	}
	defer func() { _ = res.Body.Close() }()                     // used for reading only
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 4<<10)) // as above
	if res.StatusCode != http.StatusOK {
		c.fail("receive", fix, "%s answers HTTP %d", url, res.StatusCode)
		return
	}
	overGRPC := "no OpenTelemetry over gRPC"
	if c.process.OTLPURL != "" {
		overGRPC = "OpenTelemetry over gRPC at " + c.process.OTLPURL
	}
	c.ok("receive", "receives events and OpenTelemetry over HTTP at %s, %s", url, overGRPC)
}

// checkTraces reports whether the endpoint to which calls are exported accepts requests.
func (c *checker) checkTraces(ctx context.Context) {
	cfg := c.cfg.Traces
	if cfg.URL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	e, err := spans.New(cfg, nil, slog.New(slog.DiscardHandler), nil)
	if err == nil {
		err = e.Check(ctx)
	}
	if err != nil {
		c.fail("traces", "set traces.url to the address of OTLP over HTTP, with its path, and traces.headers to what it requires", "calls are not exported: %v", err)
		return
	}
	c.ok("traces", "the endpoint of traces.url accepts spans")
}

// checkUserKey reports whether the hashes of users have a key in the running process. Hooks do not say whether they have one.
func (c *checker) checkUserKey() {
	if !c.running {
		return
	}
	switch {
	case c.process.NoUserKey:
		c.warn("users", "start llmtap again, which makes a key when NATS answers and has the streams of llmtap, or set "+event.EnvShapeKey+" to the same random text for all hooks and for llmtap",
			"hashes of users have no key in llmtap: anyone who reads one can find its name by hashing a list of names")
	case c.process.UserKey != "":
		c.ok("users", "llmtap hashes users with a key; each hook without it does so without a key, until its agent starts with %s", c.process.UserKey)
	default:
		c.ok("users", "llmtap hashes users with the key in its environment; each hook without the same %s does so without a key", event.EnvShapeKey)
	}
}
