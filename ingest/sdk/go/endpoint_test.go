package llmtap

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A setting in the code takes precedence over the environment, and LLMTAP_ENDPOINT over LLMTAP_NATS_URL. The contract tests send
// events to an endpoint.
func TestEndpointConfig(t *testing.T) {
	const nats, https = "nats://a:4222", "https://b"
	f := func(want, token string, c Config, env map[string]string) {
		t.Helper()
		if err := c.validate(func(k string) string { return env[k] }); err != nil || c.Endpoint != want || c.Token != token {
			t.Errorf("endpoint %q, token %q, %v; want %q, %q", c.Endpoint, c.Token, err, want, token)
		}
	}
	env := func(nats, endpoint string) map[string]string {
		return map[string]string{event.EnvNATSURL: nats, event.EnvEndpoint: endpoint, event.EnvToken: "t"}
	}
	f("", "", Config{}, env(nats, ""))
	f(https, "t", Config{}, env(nats, https))
	f(https, "u", Config{Endpoint: https, Token: "u"}, env("", "https://c"))
	f("", "", Config{URL: nats}, env("", https))

	fails := func(want string, c Config, env map[string]string) {
		t.Helper()
		must.Fail(t, c.validate(func(k string) string { return env[k] }), want)
	}
	fails("config URL, Endpoint: both are set; keep one", Config{URL: nats, Endpoint: https}, nil)
	fails(`config Endpoint: scheme "nats" is not https or http`, Config{Endpoint: nats}, nil)
	fails("config Endpoint: no host", Config{}, env("", "http:///x"))
	fails("user, query and fragment are not allowed", Config{Endpoint: "https://t@b"}, nil)
}
