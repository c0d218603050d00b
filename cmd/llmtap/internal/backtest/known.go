package backtest

import (
	"context"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
)

// The analyzer stores first failures and clean versions in its ledger; a backtest reads them from rows.
const (
	failuresSQL = `
SELECT service, stage, cause AS why, root_cause AS root, argMin(service_version, stored_at) AS version, min(stored_at) AS at
FROM exchanges FINAL
WHERE failed AND retry = 0 AND NOT degraded AND origin != {import:String}
GROUP BY service, stage, why, root`

	defectsSQL = `
SELECT service, stage, rule_id AS why, if(why = 'cache_broken', detail, root_cause) AS root, argMin(service_version, first_seen) AS version, min(first_seen) AS at
FROM findings FINAL
WHERE severity != 'signal' OR rule_id = 'cache_broken'
GROUP BY service, stage, why, root`

	versionsSQL = `
SELECT service, stage, service_version AS version, min(stored_at) AS at, countIf(NOT failed AND retry = 0) AS clean
FROM exchanges FINAL
WHERE messages > 0 AND NOT degraded AND origin != {import:String} AND service_version != ''
GROUP BY service, stage, version
ORDER BY at DESC`

	exampleSQL = `
SELECT rule_id AS rule, message_index AS message, tool_call_id, summary, evidence, fix, root_cause AS root
FROM findings FINAL
WHERE conversation_id = {conversation:String} AND severity != 'signal'
ORDER BY exchange_id = {exchange:String} DESC, first_seen
LIMIT 100`
)

type failure struct{ service, stage, cause, root string }

// A sighting is the first call of a version, or the first call with a failure.
type sighting struct {
	version string
	at      time.Time
	counted bool   // already counted in analyzer.MetricNew
	clean   uint64 // calls of a version that did not fail
}

// known contains the first calls of all failures, defects and versions.
type known struct {
	failures map[failure]*sighting
	defects  map[failure]*sighting    // by rule instead of the cause
	versions map[[2]string][]sighting // versions by service and stage, newest first
}

func readKnown(ctx context.Context, q rows.Querier) (*known, error) {
	params := map[string]string{"import": originImport}
	failures, err := rows.Read(ctx, q, "causes of failures", failuresSQL, params)
	if err != nil {
		return nil, err
	}
	defects, err := rows.Read(ctx, q, "defects", defectsSQL, nil)
	if err != nil {
		return nil, err
	}
	versions, err := rows.Read(ctx, q, "versions", versionsSQL, params)
	if err != nil {
		return nil, err
	}
	k := &known{map[failure]*sighting{}, map[failure]*sighting{}, map[[2]string][]sighting{}}
	for into, list := range map[*map[failure]*sighting][]rows.Row{&k.failures: failures, &k.defects: defects} {
		for _, r := range list {
			f := failure{r.Text("service"), r.Text("stage"), r.Text("why"), r.Text("root")}
			(*into)[f] = &sighting{version: r.Text("version"), at: r.Time("at")}
		}
	}
	for _, r := range versions {
		stage := [2]string{r.Text("service"), r.Text("stage")}
		k.versions[stage] = append(k.versions[stage], sighting{version: r.Text("version"), at: r.Time("at"), clean: uint64(r.Int("clean"))})
	}
	return k, nil
}

func (k *known) failure(labels map[string]string) *sighting {
	return k.failures[failure{labels["service"], labels["stage"], labels["cause"], labels["root_cause"]}]
}

// finding returns the first call with the violation, or with the failure that a signal is about.
func (k *known) finding(labels map[string]string) *sighting {
	if labels["severity"] == "signal" {
		return k.failure(labels)
	}
	return k.defects[failure{labels["service"], labels["stage"], labels["rule"], labels["root_cause"]}]
}

// setVersions sets the versions of x from first, which may be nil.
func (k *known) setVersions(x *analyzer.Example, first *sighting) {
	if first != nil {
		x.FirstVersion, x.FirstAt = first.version, first.at.UnixNano()
		x.LastClean, x.CleanCalls = k.lastClean(x.Labels, first)
	}
}

// lastClean returns the newest version that made calls before first and is not the version of first, and its calls.
func (k *known) lastClean(labels map[string]string, first *sighting) (version string, calls uint64) {
	for _, v := range k.versions[[2]string{labels["service"], labels["stage"]}] {
		if v.version != first.version && v.at.Before(first.at) {
			return v.version, v.clean
		}
	}
	return "", 0
}

// addExample adds the stored violation and the fix to the example of a.
func addExample(ctx context.Context, q rows.Querier, a *alerts.Alert) error {
	if a.Evidence.Example == nil || a.Evidence.Example.Finding { // the example of a finding is complete
		return nil
	}
	own := *a.Evidence.Example // a copy, because the engine still uses the original
	x := &own
	a.Evidence.Example, a.Evidence.Shares = x, slices.Clone(a.Evidence.Shares)
	why, root := x.Labels["cause"], x.Labels["root_cause"]
	res, err := q.Query(ctx, exampleSQL, map[string]string{"conversation": x.Conversation, "exchange": x.Exchange})
	if err != nil {
		return err
	}
	for _, r := range rows.Of(res) {
		if r.Text("root") == root && cause.OfRule(r.Text("rule")) == why {
			x.Rule, x.Message, x.ToolCallID = r.Text("rule"), r.Int("message"), r.Text("tool_call_id")
			x.Summary, x.Evidence, x.Fix = r.Text("summary"), r.Text("evidence"), r.Text("fix")
			break
		}
	}
	if x.Fix == "" {
		x.Fix = cause.Fix(why, []byte(x.ErrorText))
	}
	if len(a.Evidence.Shares) > 0 {
		a.Evidence.Shares[0].Fix = x.Fix
	}
	return nil
}
