package llmtap

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// hostCases are ingest/sdk/testdata/hosts.json, which specifies the hooks of all languages.
type hostCases struct {
	Cases []struct {
		Hosts  []string
		Method string
		URL    string
		Type   *string // Content-Type, default application/json
		Want   string
	}
	Invalid []string
}

func TestHosts(t *testing.T) {
	data := must.Get(os.ReadFile("../testdata/hosts.json"))(t)
	all := must.JSON[hostCases](t, data)
	if len(all.Cases) == 0 || len(all.Invalid) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range all.Cases {
		f := func(source string, cfg Config, env string) {
			t.Helper()
			var log bytes.Buffer
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			if err := cfg.validate(func(k string) string { return map[string]string{"LLMTAP_HOSTS": env}[k] }); err != nil {
				t.Errorf("%s %v: %v", source, c.Hosts, err)
				return
			}
			h := &Hook{cfg: cfg, hosts: cfg.hosts, unknown: &unknownHosts{log: cfg.Logger}}
			must.Equal(t, route(h, c.Method, c.URL, c.Type), c.Want, "%s %v: call to %s", source, c.Hosts, c.URL)
			must.Equal(t, log.Len() > 0, c.Want == "unrecorded", "%s %v: call to %s logs %q", source, c.Hosts, c.URL, log.String())
		}
		f("Config.Hosts", Config{Hosts: c.Hosts}, "")
		f("LLMTAP_HOSTS", Config{}, strings.Join(c.Hosts, ", "))
	}
	for _, h := range all.Invalid {
		if s, err := newHostSet([]string{h}); err == nil {
			t.Errorf("%q is accepted as %+v", h, s)
		}
	}
}

// route returns whether h records a call, counts it as unrecorded or ignores it.
func route(h *Hook, method, target string, contentType *string) (got string) {
	got = "ignored"
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, target, nil)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	if contentType != nil {
		req.Header.Set("Content-Type", *contentType)
	}
	switch {
	case !h.selects(req):
		if h.unknown.count() > 0 {
			got = "unrecorded"
		}
	default:
		got = "recorded"
	}
	return got
}

// Each unknown host is logged once, with the setting that adds it; the number of logged hosts is bounded.
func TestUnknownHostsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	h := &Hook{hosts: new(hostSet), unknown: &unknownHosts{log: slog.New(slog.NewTextHandler(&log, nil))}}
	for i := range 3 * maxUnknownHosts {
		for range 2 {
			route(h, "", fmt.Sprintf("https://key:secret@LLM-%d.corp:8000/v1/messages?key=secret", i), nil)
		}
	}
	must.Equal(t, h.unknown.count(), 6*maxUnknownHosts, "calls")
	must.Equal(t, strings.Count(log.String(), "\n"), maxUnknownHosts+1, "lines")
	line, _, _ := strings.Cut(log.String(), "\n")
	must.Contain(t, line, `host=llm-0.corp:8000 api=anthropic fix="add it with LLMTAP_HOSTS=llm-0.corp:8000"`)
	if !strings.Contains(log.String(), "further unknown hosts") || strings.Contains(log.String(), "secret") {
		t.Error(log.String())
	}
}

// Requests that are not recorded cost no memory.
func TestHostsAllocateNothing(t *testing.T) {
	s := must.Get(newHostSet([]string{"llm.corp:8000", "*.internal"}))(t)
	h := &Hook{hosts: s, unknown: &unknownHosts{log: slog.New(slog.DiscardHandler)}}
	for _, u := range []string{"http://collector:4318/v1/traces", "https://unknown.corp/v1/chat/completions", "https://api.openai.com/v1/responses"} {
		req := must.Get(http.NewRequest(http.MethodPost, u, nil))(t)
		req.Header.Set("Content-Type", "application/json")
		h.selects(req) // logs the host
		must.Equal(t, testing.AllocsPerRun(100, func() { h.selects(req) }), 0, "%s: allocations", u)
	}
}
