package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// keyStart is the number of bytes by which found looks for keys: as long as the shortest that it knows of one.
const keyStart = 12

// traces returns the keys by the first bytes of what betrays them in a text: either half of the secret part, or the first half in hexadecimal.
func (p *planter) traces() map[string][]trace {
	m := map[string][]trace{}
	for _, s := range p.all {
		half := s.middle[:max(keyStart, len(s.middle)/2)]
		for _, text := range []string{half, s.middle[len(s.middle)-len(half):], hex.EncodeToString([]byte(half))} {
			m[text[:keyStart]] = append(m[text[:keyStart]], trace{text, s})
		}
	}
	return m
}

// A trace is a text that betrays a key.
type trace struct {
	text string
	of   plantedSecret
}

// found returns the places whose keys are in text, with the kinds.
func found(text string, traces map[string][]trace) map[string][]string {
	m := map[string][]string{}
	for i := range len(text) - keyStart + 1 {
		for _, k := range traces[text[i:i+keyStart]] {
			if strings.HasPrefix(text[i:], k.text) && !slices.Contains(m[k.of.place], k.of.kind) {
				m[k.of.place] = append(m[k.of.place], k.of.kind)
			}
		}
	}
	return m
}

// A permittedLeak is where deploy/SECURITY.md says that keys may be.
type permittedLeak struct{ kind, place, surface *regexp.Regexp }

// permitted are the only leaks.
var permitted = []struct {
	capture string // "": any
	permittedLeak
}{
	// Bodies are in the stream until they have been stored and their time is over.
	{event.CaptureFull, leak(`.`, ` (body|streamed) `, `^(stream LLMTAP|file .*/jetstream/.*/LLMTAP/msgs/.*)$`)},
}

func leak(kind, place, surface string) permittedLeak {
	return permittedLeak{regexp.MustCompile(kind), regexp.MustCompile(place), regexp.MustCompile(surface)}
}

// permits reports whether a key may be there.
func (s *secretsTest) permits(kind, place, surface string) bool {
	for _, p := range permitted {
		if (p.capture == "" || p.capture == s.capture) && p.kind.MatchString(kind) && p.place.MatchString(place) && p.surface.MatchString(surface) {
			return true
		}
	}
	return false
}

// search searches all surfaces for the keys.
func (s *secretsTest) search() {
	leaks := map[string][]string{} // kinds by place and surface
	surfaces, traces := s.surfaces(), s.traces()
	for name, text := range surfaces {
		if text == "" {
			s.Errorf("%s is empty", name)
		}
		for place, kinds := range found(text, traces) {
			kinds = slices.DeleteFunc(kinds, func(kind string) bool { return s.permits(kind, place, name) })
			if slices.Sort(kinds); len(kinds) > 0 {
				leaks[place+" in "+name] = kinds
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(leaks)) {
		s.Errorf("leak: %s: %s", key, strings.Join(slices.Compact(leaks[key]), ", "))
	}
	if s.capture == event.CaptureFull && len(found(surfaces["stream LLMTAP"], traces)) < 10 {
		s.Error("the stream has no bodies: the search finds nothing")
	}
	s.Logf("%d keys, %d surfaces", len(s.all), len(surfaces))
}

// surfaces returns everything that people or programs can read, by name.
func (s *secretsTest) surfaces() map[string]string {
	all := map[string]string{}
	s.tables(all)
	s.streams(all)
	s.files(all)
	all["log"] = s.c.up.stderr.String() + s.c.up.stdout.String()
	for _, path := range []string{"/metrics", "/metrics/fleet", "/readyz", "/api/nats/refused", "/api/v1/query?query=llmtap_failed_calls_total", "/api/v1/alerts", "/api/v1/rules", "/api/v1/problems"} {
		all["http "+path] = s.c.do(s.T, "http", http.MethodGet, path, "", http.Header{"Host": {"127.0.0.1"}}).body
	}
	s.pages(all)
	s.commands(all)
	for i, m := range s.slack.Messages() {
		all[fmt.Sprintf("Slack message %d", i)] = m.Text + string(m.Blocks) + string(m.Attachments) + string(m.Metadata)
	}
	s.processes(all)
	return all
}

// tables adds all rows of all tables.
func (s *secretsTest) tables(all map[string]string) {
	s.Helper()
	query := func(sql string) [][]any {
		res, err := s.c.rows.query(s.Context(), sql)
		if err != nil {
			s.Fatalf("%s: %v", sql, err)
		}
		return res.Rows
	}
	for _, row := range query("SELECT name FROM system.tables WHERE database = currentDatabase() AND engine NOT LIKE '%View'") {
		name := row[0].(string)
		all["table "+name] = "rows: " + fmt.Sprint(query("SELECT * FROM `"+name+"`"))
	}
	for _, name := range []string{"processes", "errors", "settings", "warnings"} {
		all["table system."+name] = "rows: " + fmt.Sprint(query("SELECT * FROM system."+name+" LIMIT 5000"))
	}
}

// streams adds all messages of all streams and buckets.
func (s *secretsTest) streams(all map[string]string) {
	s.Helper()
	js := (&attackWorld{T: s.T}).js(s.c)
	names := js.StreamNames(s.Context())
	for name := range names.Name() {
		b := bytes.NewBufferString("messages:")
		err := replayStream(s.Context(), js, name, func(m natsjs.Msg, _ *natsjs.MsgMetadata) error {
			fmt.Fprintln(b, m.Subject(), m.Headers())
			for _, v := range m.Headers() { // values are percent-encoded
				if plain, err := url.PathUnescape(strings.Join(v, " ")); err == nil {
					fmt.Fprintln(b, plain)
				}
			}
			b.Write(m.Data())
			return nil
		})
		must.Do(s, err)
		all["stream "+name] = b.String()
	}
	must.Do(s, names.Err())
}

// files adds the files of the data directory.
func (s *secretsTest) files(all map[string]string) {
	s.Helper()
	err := filepath.WalkDir(s.c.up.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // removed by a merge of ClickHouse
		}
		text, err := os.ReadFile(path)
		if err == nil && len(text) > 0 {
			all["file "+strings.TrimPrefix(path, s.c.up.dir)] = string(text)
		}
		return nil //nolint:nilerr // as above
	})
	must.Do(s, err)
}

// pages adds the web pages of all calls and queries.
func (s *secretsTest) pages(all map[string]string) {
	s.Helper()
	paths := []string{"/", "/alerts", "/versions", "/calls", "/providers", "/explore", "/search?q=checkout-agent"}
	for _, name := range queries.Names() {
		paths = append(paths, "/explore/"+name)
	}
	res := must.Get(s.c.rows.query(s.Context(), "SELECT exchange_id, conversation_id FROM exchanges_final ORDER BY failed DESC, exchange_id"))(s)
	for _, row := range res.Rows {
		paths = append(paths, "/exchange/"+url.PathEscape(row[0].(string)), "/exchange/"+url.PathEscape(row[0].(string))+"/raw?part=request")
	}
	var text strings.Builder
	raw := 0 // captured requests
	for i, path := range paths {
		r := s.c.do(s.T, "ui", http.MethodGet, path, "", http.Header{"Host": {"127.0.0.1"}, "Accept": {"text/html"}})
		if r.code != http.StatusOK && !strings.HasPrefix(path, "/explore/") && !strings.Contains(path, "/raw?") {
			s.Errorf("%s: %d", path, r.code)
		}
		if r.code == http.StatusOK && strings.Contains(path, "/raw?") {
			raw++
		}
		if i < len(paths)-2*len(res.Rows) {
			all["page "+path] = r.body
			continue
		}
		text.WriteString(r.body)
	}
	if raw == 0 {
		s.Error("no captured request is shown")
	}
	all["pages of calls"] = text.String()
}

// commands adds the output of commands.
func (s *secretsTest) commands(all map[string]string) {
	s.Helper()
	here := []string{"--config", s.config, "--data-dir", s.c.up.dir}
	res := must.Get(s.c.rows.query(s.Context(), "SELECT exchange_id FROM exchanges_final ORDER BY rand() LIMIT 30"))(s)
	commands := [][]string{{"config"}, {"config", "--check"}, {"doctor"}, {"alerts", "test-notify"}, {"explain", "--unknown"}, {"query", "causes"}, {"query", "failures"}}
	for _, row := range res.Rows {
		commands = append(commands, []string{"show", row[0].(string)})
	}
	for _, args := range commands {
		flags := here
		if args[0] == "config" || args[0] == "alerts" {
			flags = here[:2]
		}
		stdout, stderr, _ := runCommand(s.T, "", append(slices.Clone(args), flags...)...)
		all["llmtap "+args[0]] += stdout + stderr
	}
	h := s.c.token["http"].Clone()
	h["Content-Type"], h["Accept"], h["Host"] = []string{"application/json"}, []string{"application/json, text/event-stream"}, []string{"127.0.0.1"}
	for _, row := range res.Rows {
		call := s.json(object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{"name": "show", "arguments": object{"id": row[0]}}})
		all["MCP show"] += s.c.do(s.T, "http", http.MethodPost, "/mcp?content=true", call, h).body
	}
}

// processes adds the arguments of the collector and its ClickHouse, and the environment of the latter.
func (s *secretsTest) processes(all map[string]string) {
	s.Helper()
	parent := s.c.up.cmd.Process.Pid
	child := clickhouseChild(s.T, parent)
	for name, path := range map[string]string{
		"arguments of llmtap": fmt.Sprintf("/proc/%d/cmdline", parent), "arguments of ClickHouse": fmt.Sprintf("/proc/%d/cmdline", child),
		"environment of ClickHouse": fmt.Sprintf("/proc/%d/environ", child),
	} {
		text := filetest.Read(s, path)
		all[name] = string(text)
	}
}
