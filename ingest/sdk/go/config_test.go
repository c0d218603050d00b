package llmtap

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestInvalidConfig(t *testing.T) {
	f := func(c Config, want string) {
		t.Helper()
		h, err := Open(c)
		if err == nil {
			h.Close()
		}
		must.Fail(t, err, want)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v contains the password", err)
		}
	}
	f(Config{Capture: "all"}, `config Capture "all"`)
	f(Config{Capture: "full", Origin: "import"}, `config Origin "import"`)
	f(Config{Capture: "full", URL: "http://127.0.0.1"}, `scheme "http"`)
	f(Config{Capture: "full", URL: "127.0.0.1:4222, nats://"}, "no host")
	f(Config{Capture: "full", URL: "nats://u:secret%zz@h:4222"}, "invalid URL")
	f(Config{Capture: "full", MemoryLimit: 1000}, "config MemoryLimit")
	f(Config{Capture: "full", FlushTimeout: -1}, "config FlushTimeout")
	f(Config{Capture: "full", Hosts: []string{"llm corp"}}, `config Hosts: "llm corp" is not a host`)
}

func TestConfigDefaults(t *testing.T) {
	env := map[string]string{
		"LLMTAP_NATS_URL":          "nats://nats:4222",
		"OTEL_SERVICE_NAME":        "checkout",
		"OTEL_RESOURCE_ATTRIBUTES": "service.name=other,service.version=2.4.0, deployment.environment.name=prod%20eu",
	}
	c := Config{}
	must.Do(t, c.validate(func(k string) string { return env[k] }))
	if c.Capture != event.CaptureShape || len(c.shapeKey) != 32 || len(c.userKey) != 0 {
		t.Errorf("capture %q, %d bytes of key", c.Capture, len(c.shapeKey))
	}
	if c.URL != "nats://nats:4222" || c.Service != "checkout" || c.ServiceVersion != "2.4.0" || c.Environment != "prod eu" {
		t.Errorf("config %+v", c)
	}
	env["LLMTAP_SERVICE"], env["LLMTAP_SERVICE_VERSION"] = "run", "3"
	c = Config{}
	must.Do(t, c.validate(func(k string) string { return env[k] }))
	must.Equal(t, c.Service+" "+c.ServiceVersion, "run 3", "service and version")
	// Without settings, the service has the name of the binary.
	c = Config{Capture: event.CaptureNone}
	must.Do(t, c.validate(func(string) string { return "" }))
	if c.URL != DefaultURL || c.Service == "" || c.MemoryLimit != DefaultMemoryLimit || c.FlushTimeout != DefaultFlushTimeout {
		t.Errorf("config %+v", c)
	}
}

// Attributes are masked as in the cases of all languages.
func TestMaskedAttrs(t *testing.T) {
	text := must.Get(os.ReadFile("../testdata/attrs.json"))(t)
	var cases []struct{ About, In, Out string }
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		must.Equal(t, maskedAttrs(map[string]string{"k": clipAttr(c.In)})["k"], c.Out, "%s", c.About)
	}
}
