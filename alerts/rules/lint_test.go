package rules_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestLint(t *testing.T) {
	if n, problems := source().Lint(t.Context()); n == 0 || len(problems) > 0 {
		t.Errorf("%d shipped rules are valid; problems: %v", n, problems)
	}
	file := filepath.Join(t.TempDir(), "r.yaml")
	// f expects one problem in an expression and an annotation, or none if want is empty.
	f := func(expr, annotation, want string) {
		t.Helper()
		text := "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: |\n      " + expr + "\n    annotations:\n      summary: '" + annotation + "'\n"
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		n, problems := source(file).Lint(t.Context())
		switch {
		case want == "" && (n != 1 || len(problems) > 0):
			t.Errorf("%s, %s: %v", expr, annotation, problems)
		case want != "" && (n != 0 || len(problems) != 1 || !strings.HasSuffix(problems[0].Error(), "r.yaml:4: A: "+want)):
			t.Errorf("%s, %s:\ngot  %v\nwant %s", expr, annotation, problems, want)
		}
	}
	f(`sum by (service) (llmtap_calls_total) > 1`, "{{ $labels.service }} {{ $value | humanize }}", "")
	f(`sum without (service) (llmtap_calls_total) > 1`, "{{ $labels.stage }}", "")
	f(`sum without (service) (llmtap_lost_events_total) > 1`, "{{ $labels.service }}",
		"annotation summary uses the label service, but the labels of the expression's result are: environment")
	f(`llmtap_store_up == 0`, `{{ index $labels "service" }}`, "annotation summary uses the label service, but the labels of the expression's result are: none")
	f(`sum by (service) (llmtap_calls_total) > on (service) group_left (stage) sum by (service, stage) (llmtap_calls_total)`, "{{ .Labels.stage }}", "")
	f(`sum by (service, stage) (llmtap_calls_total) > on (service) sum by (service) (llmtap_calls_total)`, "{{ $labels.stage }}",
		"annotation summary uses the label stage, but the labels of the expression's result are: service")
	f(`sum by (service, stage) (llmtap_calls_total) > 5 and on (service) sum by (service) (llmtap_calls_total)`, "{{ $labels.stage }}", "")
	f(`sum(llmtap_calls_total) or sum by (stage) (llmtap_calls_total)`, "{{ $labels.stage }}", "")
	f(`topk by (service) (3, llmtap_calls_total)`, "{{ $labels.model }}", "")
	f(`label_replace(sum by (service) (llmtap_calls_total), "team", "$1", "service", "(.*)-.*")`, "{{ $labels.team }} {{ $labels.service }}", "")
	f(`absent(llmtap_calls_total{service="shop"})`, "{{ $labels.service }}", "")
	f(`max_over_time(sum by (rule) (llmtap_findings_total)[10m:1m]) > 3`, "{{ $labels.rule }}", "")
	f(`count_values("n", llmtap_calls_total)`, "{{ $labels.n }}", "")
	f(`vector(1)`, "fine", "")
	f(`sum by (rule) (llmtap_calls_total)`, "x", "sum by (rule): no label rule; known labels: agent, environment, model, provider, service, service_version, stage")
	f(`llmtap_calls_total{cause!=""} > 1`, "x", "llmtap_calls_total has no label cause; its labels: agent, environment, model, provider, service, service_version, stage")
	f(`llmtap_calls_total > on (team) llmtap_calls_total`, "x", "on (team): no label team; known labels: agent, environment, model, provider, service, service_version, stage")
	f(`sum(llmtap_calls_total) > 1`, `{{ with query "sum(up)" }}{{ . | first | value }}{{ end }}`, "")
	f(`sum(llmtap_calls_total) > 1`, `{{ $value | humanizeDuration | reReplaceAll "(" "" }}`,
		`annotation summary: error executing template alert A: template: alert A:1:143: executing "alert A" at <reReplaceAll "(" "">: `+
			"error calling reReplaceAll: regexp: Compile(`(`): error parsing regexp: missing closing ): `(`")
}
