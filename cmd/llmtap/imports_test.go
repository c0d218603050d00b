package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const module = "github.com/llmtap/llmtap/"

// importRules lists the packages of this module that a folder may import. The first matching folder applies.
// A package is given by its prefix, or whole with a $, and so is a folder without its subfolders.
var importRules = []struct {
	folder string
	may    []string // our packages, by prefix
	why    string
}{
	{"ingest/sdk/go/event", nil, "SDK users get a stdlib-only vocabulary"},
	{"ingest/sdk/go/wire", []string{"ingest/sdk/go/wire/"}, "every agent with a hook links it: standard library only"},
	{"ingest/certs/certstest", []string{"ingest/sdk/go/must"}, "only tests import it"},
	{"ingest/certs", nil, "every listener and client uses it"},
	{"ingest/sdk/go/must", nil, "only tests import it, those of the hook too"},
	{"ingest/sdk/go/testnet", []string{"ingest/sdk/go/must"}, "only tests import it, those of the hook too"},
	{"ingest/loopback", nil, "every listener uses it"},
	{"ingest/secret", nil, "every configuration reads its secrets with it"},
	{"ingest/nearest", nil, "receivers, configuration and queries suggest names with it"},
	{"ingest/quantity", nil, "pages, messages and commands write numbers with it"},
	{"ingest/sdk/go/shape", []string{"ingest/sdk/go/event", "ingest/sdk/go/wire"}, "hooks use it, and they drag nothing of the collector into an agent"},
	{"ingest/sdk/go/llmtaptest", []string{"ingest/sdk/go$", "ingest/sdk/go/event"}, "only tests import it, those of agents"},
	{"ingest/sdk/go", []string{"ingest/sdk/go/event", "ingest/sdk/go/shape", "ingest/sdk/go/wire"}, "a hook drags nothing of the collector into an agent"},
	{"ingest", []string{"ingest/"}, "a collector must run without analysis"},
	{"analyzer/check", []string{"analyzer/facts", "ingest/sdk/go/wire"}, "rules and lint need no stream"},
	{"analyzer/dist", nil, "tallies, alerts and pages count values with it"},
	{"analyzer/price", nil, "the analyzer, queries and pages use one price table"},
	{"analyzer/rules", []string{"analyzer/check", "analyzer/facts", "ingest/sdk/go/wire"}, "a rule sees one request"},
	{"analyzer/rulestest", []string{"ingest/sdk/go/must", "ingest/sdk/go/wire", "ingest/dialect", "ingest/recorded/recordedtest", "analyzer/facts"}, "only tests import it"},
	{"analyzer", []string{"ingest/quantity", "ingest/sdk/go/event", "ingest/sdk/go/wire", "analyzer"}, "rules are pure: lint, import and backtests work offline"},
	{"sinks/chdb/chdbtest", []string{"ingest/sdk/go/must", "sinks/chdb"}, "only tests import it"},
	{"sinks/sinktest", []string{"ingest/sdk/go/must", "ingest/sdk/go/event", "analyzer", "sinks"}, "only tests import it"},
	{"sinks", []string{"ingest/sdk/go/event", "ingest/loopback", "ingest/secret", "analyzer", "sinks"}, "storage and alerting never know each other"},
	{"alerts$", []string{"ingest/quantity", "analyzer", "alerts/rules", "alerts/silence"}, "the vocabulary knows neither the engine nor notifiers"},
	{"alerts/differ", []string{"ingest/quantity"}, "pages and commands compare calls without alerts"},
	{"alerts/engine", []string{"analyzer", "alerts$", "alerts/differ", "alerts/endpoint", "alerts/sent", "alerts/regression", "alerts/rules", "alerts/silence", "alerts/tsdb", "alerts/usual"}, "the engine knows no kind of notifier"},
	{"alerts/alertstest", []string{"ingest/sdk/go/must", "alerts$", "analyzer"}, "only tests import it"},
	{"alerts/email/smtptest", []string{"ingest/certs/certstest", "ingest/sdk/go/must"}, "only tests import it"},
	{"alerts/enginetest", []string{"alerts/engine"}, "only tests import it"},
	{"alerts/promapi", []string{"alerts/engine", "alerts/rules", "dashboards/access"}, "it serves the engine's rules and series"},
	{"alerts/regression", nil, "gate and pages compare versions without alerts"},
	{"alerts/ruletest", []string{"alerts/rules", "alerts/tsdb"}, "a unit test needs rules and samples only"},
	{"alerts/routing", []string{"alerts$", "alerts/email", "alerts/msteams", "alerts/pagerduty", "alerts/silence", "alerts/webhook"}, "routes choose among the notifiers"},
	{"alerts/rules", []string{"analyzer"}, "rules are files, which are checked without an engine"},
	{"alerts/silence", nil, "commands and pages parse matchers with it"},
	{"alerts/tsdb", []string{"analyzer/dist"}, "it knows series and distributions, not alerts"},
	{"alerts/usual", []string{"analyzer/dist"}, "pages and commands ask what is usual without alerts"},
	{"alerts", []string{
		"ingest/sdk/go/event", "ingest/quantity", "ingest/secret", "analyzer", "alerts$", "alerts/alertmanager", "alerts/endpoint", "alerts/sent", "alerts/silence", "alerts/thread", "alerts/wording",
		"ingest/certs",
	}, "a notifier speaks of alerts, whoever evaluates them"},
	{"dashboards/access", nil, "listeners of all kinds ask it who may do what"},
	{"dashboards", []string{"dashboards", "ingest/nearest", "ingest/quantity", "ingest/sdk/go/event", "alerts/differ", "analyzer/price", "analyzer/promptcache"}, "it declares the interfaces it reads through"},
	{"deploy/examples/go", []string{"ingest/sdk/go"}, "examples show what an agent sees"},
	{"deploy/bench", []string{"ingest/sdk/go$", "ingest/sdk/go/event", "ingest/jetstream", "ingest/recorded", "sinks/chdb", "sinks/clickhouse$", "deploy/bench/"}, "it measures llmtap from outside, as a process"},
	{"cmd/llmtap/internal/fleet", []string{"ingest/sdk/go$", "ingest/sdk/go/event", "ingest/loopback", "cmd/llmtap/internal/fleet"}, "the demo's fleet must not share code with what judges it"},
	{"cmd", []string{""}, "main is wiring, and the packages of its commands may use everything"},
}

// thirdParty lists the only folders that may import a library.
var thirdParty = map[string][]string{
	"github.com/nats-io/":              {"ingest", "cmd"},
	"github.com/ClickHouse/":           {"sinks/clickhouse", "sinks/chdb"},
	"github.com/slack-go/":             {"alerts/slack"},
	"github.com/ebitengine/":           {"sinks/chdb"},
	"github.com/modelcontextprotocol/": {"cmd/llmtap/internal/mcpserver"},
	"github.com/coreos/go-oidc/":       {"dashboards/access"},
	"github.com/openai/":               {"deploy/examples/go"},
	"github.com/gorilla/websocket":     {"cmd/llmtap/internal/fleet"},
	"github.com/anthropics/":           {"deploy/examples/go"},
	"github.com/sashabaranov/":         {"deploy/examples/go"},
	"github.com/prometheus/":           {"ingest", "analyzer", "sinks", "alerts", "cmd", "dashboards"},
	"github.com/klauspost/":            {"ingest", "analyzer", "sinks", "cmd"},
	"github.com/zeebo/xxh3":            {"analyzer"},
	"github.com/goccy/go-yaml":         {"cmd", "alerts"},
	"github.com/andybalholm/":          {"sinks/chdb", "ingest/sdk/go", "cmd/llmtap/internal/browsertest"},
	"github.com/cenkalti/backoff":      {"ingest", "sinks", "alerts", "cmd"},
	"github.com/google/uuid":           {"ingest", "sinks", "cmd", "deploy"},
	"go.opentelemetry.io/collector/":   {"ingest/otlp", "sinks/spans", "deploy/bench"},
	"google.golang.org/":               {"ingest/otlp", "sinks/spans", "deploy/bench"},
	"golang.org/x/sync/":               {"ingest", "sinks", "alerts", "cmd", "deploy/bench"},
	"github.com/google/go-cmp/":        {""}, "github.com/rogpeppe/": {""}, "go.uber.org/goleak": {""}, "golang.org/x/": {""},
}

// The files are parsed rather than listed by the go command: the test cache does not see what a child process reads.
func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata" || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		checkImports(t, path, rel)
		return nil
	})
	if err != nil || files < 20 {
		t.Fatalf("walk the module: %d files, %v", files, err)
	}
}

func checkImports(t *testing.T, path, rel string) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	test := strings.HasSuffix(rel, "_test.go")
	for _, imp := range f.Imports {
		p, _ := strconv.Unquote(imp.Path.Value)
		if ours, ok := strings.CutPrefix(p, module); ok {
			// A test may use the real implementation of what its package needs.
			if !test && !mayImport(t, rel, ours) {
				t.Errorf("%s imports %s", rel, ours)
			}
			continue
		}
		if test || !strings.Contains(strings.SplitN(p, "/", 2)[0], ".") {
			continue
		}
		allowed, known := thirdPartyFolders(p)
		if !known {
			t.Errorf("%s imports %s: add it to thirdParty with the folders that may use it", rel, p)
		} else if !hasPrefixIn(rel, allowed) {
			t.Errorf("%s imports %s, which only %v may", rel, p, allowed)
		}
	}
}

func mayImport(t *testing.T, rel, ours string) bool {
	for _, r := range importRules {
		whole, ok := strings.CutSuffix(r.folder, "$")
		if ok && path.Dir(rel) == whole || strings.HasPrefix(rel, r.folder+"/") {
			if hasPrefixIn(ours, r.may) {
				return true
			}
			t.Logf("%s may import %v: %s", r.folder, r.may, r.why)
			return false
		}
	}
	t.Errorf("%s is in no folder of the layout", rel)
	return true
}

func thirdPartyFolders(pkg string) (folders []string, known bool) {
	best := ""
	for prefix, f := range thirdParty {
		if strings.HasPrefix(pkg, prefix) && len(prefix) > len(best) {
			best, folders, known = prefix, f, true
		}
	}
	return folders, known
}

func hasPrefixIn(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if whole, ok := strings.CutSuffix(p, "$"); s == whole && ok || strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// Package main has one thin file per command: flags, then one call.
func TestThinCommands(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text := filetest.Read(t, file)
		if n := strings.Count(string(text), "\n"); n > 200 && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s has %d lines; move its logic to a package in internal", file, n)
		}
	}
}

func TestTopLevel(t *testing.T) {
	fixed := "go.mod go.sum go.work go.work.sum cmd ingest analyzer sinks alerts dashboards deploy README.md LICENSE "
	entries := must.Get(os.ReadDir(filepath.Join("..", "..")))(t)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !strings.Contains(fixed, e.Name()+" ") {
			t.Errorf("%s: the layout at the top level is fixed", e.Name())
		}
	}
}

// Agents inherit the requirements of the Go hook, those of its tests included.
func TestRequirementsOfHook(t *testing.T) {
	text := filetest.Read(t, filepath.Join("..", "..", "ingest", "sdk", "go", "go.mod"))
	allowed := regexp.MustCompile(`^(github\.com/(nats-io/(nats\.go|nkeys|nuid)|klauspost/compress|andybalholm/brotli|google/uuid)|golang\.org/x/(crypto|sys))$`)
	for _, m := range regexp.MustCompile(`(?m)^(?:require |\t)(\S+) v`).FindAllStringSubmatch(string(text), -1) {
		if !allowed.MatchString(m[1]) {
			t.Errorf("ingest/sdk/go requires %s: move the test or the code that needs it to another module", m[1])
		}
	}
}
