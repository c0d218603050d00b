package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/python/pythontest"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// An incident is a program in deploy/examples/python and the expected rows.
type incident struct {
	path  string    // of the provider
	calls [2]uint64 // to the model, by the defective program and by the fixed one
	print string    // what the defective program prints
	// Counts by rule and root cause, and of failed calls by cause and root cause.
	findings, failed map[string]uint64
	signal           string // expected in addition
}

var incidents = []incident{
	{
		path: provider.DeepSeekPath, calls: [2]uint64{2, 3}, print: "task finished",
		findings: map[string]uint64{"orphan_tool_reply tool_calls_dropped_on_save": 1},
		failed:   map[string]uint64{"orphan_tool_reply tool_calls_dropped_on_save": 1},
		signal:   signals.MaskedFailure,
	},
	{
		path: provider.OpenAIPath, calls: [2]uint64{2, 2}, print: "did not have response messages",
		findings: map[string]uint64{"missing_tool_reply parallel_calls_truncated": 1},
		failed:   map[string]uint64{"missing_tool_reply parallel_calls_truncated": 1},
	},
	{
		path: provider.QwenPath, calls: [2]uint64{2, 2}, print: "13 messages, 10 are sent",
		findings: map[string]uint64{"orphan_tool_reply history_truncated_mid_pair": 9},
		failed:   map[string]uint64{"orphan_tool_reply history_truncated_mid_pair": 1},
	},
	{
		path: provider.GeminiPath, calls: [2]uint64{3, 3}, print: "Error handling LLM request",
		findings: map[string]uint64{
			"arguments_not_string arguments_reserialised_as_object": 1,
			"orphan_tool_reply replayed_history_without_binding":    1,
		},
		failed: map[string]uint64{
			"arguments_not_string arguments_reserialised_as_object": 1,
			"orphan_tool_reply replayed_history_without_binding":    1,
		},
	},
	{
		path: provider.DeepSeekPath, calls: [2]uint64{4, 4}, print: "ben: sorry, an error",
		findings: map[string]uint64{"missing_tool_reply tool_skipped": 1, "duplicate_tool_reply duplicate_reply": 1},
		failed:   map[string]uint64{"missing_tool_reply tool_skipped": 1, "duplicate_tool_reply duplicate_reply": 1},
	},
}

// The five incidents are Python programs with the real clients and the hook: the rows identify the defect of each, and the fixed
// programs have no findings.
func TestIncidents(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	needClickHouse(t)
	folder := filepath.Join("..", "..", "deploy", "examples", "python")
	python := pythontest.Interpreter(t, append(strings.Fields(source(t, "deploy/examples/python/requirements.txt")), "nats-py>=2.6,<3")...)
	sdk := must.Get(filepath.Abs(filepath.Join("..", "..", "ingest", "sdk", "python")))(t)
	pythontest.Watch(t, folder)
	pythontest.Watch(t, filepath.Join(sdk, "llmtap"))
	model := httptest.NewServer(provider.New(provider.Config{Seed: 1}))
	t.Cleanup(model.Close)
	up := startUp(t)
	up.ready(t)
	natsURL := fmt.Sprintf("nats://127.0.0.1:%d", up.port)

	start := time.Now()
	t.Run("programs", func(t *testing.T) {
		for i, in := range incidents {
			for _, fixed := range []bool{false, true} {
				t.Run(fmt.Sprint(i, ",fixed=", fixed), func(t *testing.T) {
					t.Parallel()
					cmd := exec.CommandContext(t.Context(), python, fmt.Sprintf("incident_%d.py", i))
					if fixed {
						cmd.Args = append(cmd.Args, "--fixed")
					}
					cmd.Dir = folder
					cmd.Env = []string{
						"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYTHONPATH=" + sdk, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1",
						"OPENAI_BASE_URL=" + model.URL + in.path, "OPENAI_API_KEY=none", "LLMTAP_NATS_URL=" + natsURL,
					}
					out, err := cmd.CombinedOutput()
					if _, exited := errors.AsType[*exec.ExitError](err); err != nil && (!exited || fixed) {
						t.Errorf("run: %v", err)
					}
					if strings.Contains(string(out), "Traceback") || !fixed && !strings.Contains(string(out), in.print) {
						t.Errorf("output:\n%s", out)
					}
				})
			}
		}
	})
	ran := time.Since(start)
	rows := up.rows()
	t.Cleanup(rows.close)
	auditStore(t, natsURL, rows, nil).check(t) // waits until everything is stored
	sink := up.open(t)
	for i, in := range incidents {
		for k, version := range []string{"1", "2"} {
			in.check(t, sink, fmt.Sprintf("service = 'incident-%d' AND service_version = '%s'", i, version), in.calls[k], version == "1")
		}
	}
	// Only incident 3 stores a broken history and sends it again.
	if got := stuckServices(t, sink); !slices.Equal(got, []string{"incident-3 1 orphan_tool_reply"}) {
		t.Errorf("stuck: %v", got)
	}
	t.Logf("the programs took %.1f s, until everything was stored %.1f s", ran.Seconds(), time.Since(start).Seconds())
}

// stuckServices returns service, version and cause of each stuck conversation.
func stuckServices(t *testing.T, sink *clickhouse.Sink) (found []string) {
	t.Helper()
	q := must.Get(queries.Get("stuck"))(t)
	sql, params, err := q.Bind(nil, time.Now())
	must.Do(t, err)
	res := must.Get(sink.Query(t.Context(), sql, params))(t)
	for _, row := range res.Rows {
		found = append(found, fmt.Sprintf("%v %v %v", row[1], row[2], row[4]))
	}
	return found
}

// check compares the stored rows of a program with the expected ones.
func (in *incident) check(t *testing.T, sink *clickhouse.Sink, where string, calls uint64, defective bool) {
	t.Helper()
	total := groups(t, sink, "SELECT 'calls', count() FROM exchanges_final WHERE "+where)["calls"]
	must.Equal(t, total, calls, "%s: calls", where)
	signals := groups(t, sink, "SELECT rule_id, count() FROM findings_final WHERE "+where+" AND severity = 'signal' GROUP BY rule_id")
	switch {
	case defective && in.signal != "" && signals[in.signal] != 1:
		t.Errorf("%s: no %s", where, in.signal)
	case !defective && len(signals) > 0:
		t.Errorf("%s: signals %v", where, signals)
	case !defective:
		in = &incident{}
	}
	f := func(what, sql string, want map[string]uint64) {
		t.Helper()
		if want == nil {
			want = map[string]uint64{}
		}
		must.Agree(t, cmp.Diff(want, groups(t, sink, sql)), where, what)
	}
	f("findings", "SELECT concat(rule_id, ' ', root_cause) AS k, count() FROM findings_final WHERE "+where+
		" AND (predicted = 'reject' OR severity = 'reject' OR root_cause != '') GROUP BY k", in.findings)
	f("failed calls", "SELECT concat(cause, ' ', root_cause) AS k, count() FROM exchanges_final WHERE "+where+" AND failed GROUP BY k", in.failed)
	t.Logf("%s: %d calls, findings %v, signals %v", where, total, in.findings, signals)
}
