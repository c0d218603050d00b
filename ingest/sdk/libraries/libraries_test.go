package libraries

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/testhelper/natsd"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var which = flag.String("libraries", "", `run "all" tests of libraries with the hooks; with -slow alone, a part`)

// A library is one whose tests run with the hook.
type library struct {
	name            string
	source, version string // in the package registry
	open            func(testing.TB, *library) suite
	requires        []string // further Python packages of the tests
	mocked          bool     // the tests replace what sends requests, above the hook
	common          []string // arguments of every run
	part, all       []string // arguments that select tests
}

// A suite is the tests of a library, installed.
type suite struct {
	run   func(env, args []string) run
	alone func(test string) []string // arguments that select one test
}

// A run is the outcomes of tests: "pass", "fail" or "skip".
type run struct {
	tests   map[string]string
	output  string
	seconds float64
}

func (r *run) passed() (n int) {
	for outcome := range maps.Values(r.tests) {
		if outcome == "pass" {
			n++
		}
	}
	return n
}

// TestLibraries compares the outcomes of each test of the libraries.
func TestLibraries(t *testing.T) {
	if *which == "" {
		slowtest.Skip(t)
	}
	srv := must.Get(natsd.Start(t.TempDir(), -1, 0, nil))(t)
	defer natsd.Stop(srv)
	nc := must.Get(nats.Connect("", nats.InProcessServer(srv), nats.UserInfo("admin", "admin")))(t)
	defer nc.Close()
	js := must.Get(jetstream.New(nc))(t)
	// The SDKs' generated tests expect a provider that answers everything. The decoders of the Go SDKs accept an empty object.
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	defer provider.Close()
	var table strings.Builder
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "library\tversion\ttests\tpassed without\twith\tdifferent\tflaky\tevents\tseconds without\twith")
	rows := make([]string, len(libraries))
	t.Run("tests", func(t *testing.T) {
		for i := range libraries {
			l := &libraries[i]
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				rows[i] = l.name + "\t" + l.version + "\tnot run"
				c := compare(t, l, []string{"TEST_API_BASE_URL=" + provider.URL}, []string{"LLMTAP_NATS_URL=nats://admin:admin@" + srv.Addr().String()})
				events := stored(t, js, l.name)
				rows[i] = fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f\t%.0f", l.name, l.version, len(c.without.tests), c.without.passed(), c.with.passed(),
					c.different, c.flaky, events, c.without.seconds, c.with.seconds)
				if n := c.without.passed(); events == 0 && !l.mocked || n*2 < len(c.without.tests) {
					t.Errorf("%d of %d tests pass, and the hook recorded %d events\n%s", n, len(c.without.tests), events, c.without.output)
				}
			})
		}
	})
	for _, row := range rows {
		fmt.Fprintln(out, row)
	}
	_ = out.Flush()
	t.Logf("Tests of libraries without and with the hook:\n%s", &table)
}

type comparison struct {
	without, with    run
	different, flaky int
}

// compare runs the tests of l without the hook and with it. Tests that pass only without it run alone again, since some fail now and then.
func compare(t *testing.T, l *library, env, hooked []string) (c comparison) {
	t.Helper()
	s := l.open(t, l)
	args := l.part
	if *which == "all" {
		args = l.all
	}
	env = slices.Concat(env, []string{"LLMTAP_TEST_SERVICE=" + l.name})
	hooked = slices.Concat(hooked, env)
	c.without, c.with = s.run(env, args), s.run(hooked, args)
	for _, test := range slices.Sorted(maps.Keys(c.without.tests)) {
		if c.without.tests[test] != "pass" || c.with.tests[test] == "pass" {
			continue
		}
		var last run
		alone := func(env []string) string {
			last = s.run(env, s.alone(test))
			return last.tests[test]
		}
		if alone(env) != "pass" || alone(hooked) == "pass" || alone(env) != "pass" || alone(hooked) == "pass" {
			t.Logf("%s does not depend on the hook: alone, it fails without it or passes with it", test)
			c.flaky++
			continue
		}
		c.different++
		t.Errorf("%s passes only without the hook:\n%s", test, last.output)
		if c.different+c.flaky == 20 {
			t.Fatalf("and further ones:\n%s", c.with.output)
		}
	}
	return c
}

// stored returns the number of events of a service.
func stored(t *testing.T, js jetstream.JetStream, service string) (n uint64) {
	t.Helper()
	stream := must.Get(js.Stream(t.Context(), event.StreamEvents))(t)
	info := must.Get(stream.Info(t.Context(), jetstream.WithSubjectFilter("llmtap.v1.*."+service+".>")))(t)
	for _, count := range info.State.Subjects {
		n += count
	}
	return n
}

// command runs a command in dir and returns its output. An exit code above 1 fails the test: 1 means that tests fail.
func command(t testing.TB, dir string, env []string, name string, args ...string) (string, float64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Minute
	cmd.Env = append(os.Environ(), env...)
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out), time.Since(begin).Seconds()
}

// download runs a client of a registry. If that fails, the test fails on CI and is skipped elsewhere.
func download(t testing.TB, name string, args ...string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%q: %v\n%s", args, err, out)
	default:
		t.Skipf("SKIPPED: requires a package registry: %q: %v", args, err)
	}
	return out
}
