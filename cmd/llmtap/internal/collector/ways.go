package collector

import (
	"runtime/debug"
	"strings"

	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// ways returns how an agent sends its calls to this process, for the first page until one has.
func (c *Collector) ways() []web.Way {
	url, login := c.hookURL()
	export := "export " + event.EnvNATSURL + "=" + url + "\n"
	if key := c.key.export(); key != "" {
		export += key + "\n"
	}
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	python, node := installs(version)
	ways := []web.Way{
		{Name: "Python", Note: login, Code: python + export + "llmtap run -- python agent.py"},
		{Name: "Node.js", Note: login, Code: node + export + "llmtap run -- node agent.js"},
		{Name: "Python, in its code", Note: login, Code: python + export + `cat > hooked.py <<'END'
import llmtap, runpy
llmtap.instrument(service="my-agent", service_version="1.0.0")
runpy.run_path("agent.py", run_name="__main__")
END
python hooked.py`},
		{Name: "Node.js, in its code", Note: login, Code: node + export + `cat > hook.mjs <<'END'
import { instrument } from "llmtap";
instrument({ service: "my-agent", serviceVersion: "1.0.0" });
END
node --import ./hook.mjs agent.mjs`},
		{Name: "Go", Note: login, Code: export + `
// import llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
hook, err := llmtap.Open(llmtap.Config{Service: "my-agent", ServiceVersion: "1.0.0"})
if err != nil {
	log.Fatal(err)
}
defer hook.Close()
client := &http.Client{Transport: hook.Transport(nil)} // for the provider's SDK`},
	}
	if c.proxy != nil {
		base := c.localURL(c.proxy.listener)
		ways = append(ways,
			web.Way{Name: "Any language", Note: "through the proxy, which records " + c.proxy.recorded(), Code: "export OPENAI_BASE_URL=" + base + "/openai/v1\nexport ANTHROPIC_BASE_URL=" + base + "/anthropic"},
			web.Way{Name: "Claude Code", Note: "through the proxy", Code: "export ANTHROPIC_BASE_URL=" + base + "/anthropic\nclaude"})
	}
	if r := c.receive; r != nil && r.listener != nil {
		way := web.Way{Name: "OpenTelemetry", Code: "export OTEL_EXPORTER_OTLP_ENDPOINT=" + c.localURL(r.listener)}
		if r.guard.tokens.Required() {
			way.Note = "LLMTAP_TOKEN is the token of receive.token"
			way.Code += "\nexport OTEL_EXPORTER_OTLP_HEADERS=\"Authorization=Bearer%20$" + event.EnvToken + `"`
		}
		ways = append(ways, way)
	}
	return ways
}

// installs returns the commands that install the hooks: those that come with a release, or else those in a clone.
func installs(version string) (python, node string) {
	if strings.HasPrefix(version, "v") && !strings.ContainsAny(version, "-+") { // no pre-release, pseudo-version or dirty clone
		return "pip install llmtap\n", "npm install llmtap\n"
	}
	return "pip install ./ingest/sdk/python\n", "(cd ingest/sdk/typescript && npm ci && npm run build)\nnpm install ./ingest/sdk/typescript\n"
}
