package engine

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Outages of two providers are two incidents; a stage is one, whichever provider it calls.
func TestDefaultGroups(t *testing.T) {
	by := Default().GroupBy
	for _, x := range []struct {
		rule, want string
		labels     map[string]string
	}{
		{"ProviderOutage", `ProviderOutage{environment="prod",provider="openai"}`, map[string]string{"environment": "prod", "provider": "openai", "severity": "critical"}},
		{"ProviderOutage", `ProviderOutage{environment="prod",provider="deepseek"}`, map[string]string{"environment": "prod", "provider": "deepseek"}},
		{"StageFailureRate", `StageFailureRate{service="shop",stage="planner"}`, map[string]string{"service": "shop", "stage": "planner"}},
	} {
		must.Equal(t, groupKey(x.rule, x.labels, by), x.want, "group")
	}
}
