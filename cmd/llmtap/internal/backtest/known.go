package backtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer/cause"
)

// What the ledger of the analyzer remembers of failures, as far as rows tell.
const (
	failuresSQL = `
SELECT service, stage, cause AS why, root_cause AS root, argMin(service_version, stored_at) AS version, min(stored_at) AS at
FROM exchanges_final
WHERE failed AND retry = 0 AND NOT degraded AND origin != {import:String}
GROUP BY service, stage, why, root`

	versionsSQL = `
SELECT service, stage, service_version AS version, min(stored_at) AS at
FROM exchanges_final
WHERE messages > 0 AND NOT degraded AND origin != {import:String} AND service_version != ''
GROUP BY service, stage, version
ORDER BY at DESC`

	exampleSQL = `
SELECT rule_id AS rule, message_index AS message, tool_call_id, summary, evidence, fix, root_cause AS root
FROM findings_final
WHERE conversation_id = {conversation:String} AND severity != 'signal'
ORDER BY exchange_id = {exchange:String} DESC, first_seen
LIMIT 100`
)

type failure struct{ service, stage, cause, root string }

// A sighting is the first call that showed something.
type sighting struct {
	version string
	at      time.Time
	counted bool // as new
}

// known holds the first calls of all failures and versions.
type known struct {
	failures map[failure]*sighting
	versions map[[2]string][]sighting // by service and stage, newest first
}

func readKnown(ctx context.Context, s Store) (*known, error) {
	k := &known{map[failure]*sighting{}, map[[2]string][]sighting{}}
	read := func(what, sql string, each func(r *row)) error {
		res, err := s.Query(ctx, sql, map[string]string{"import": originImport})
		if err != nil {
			return fmt.Errorf("read %s: %w", what, err)
		}
		for _, values := range res.Rows {
			r := row{res: res, values: values}
			if each(&r); r.err != nil {
				return r.err
			}
		}
		return nil
	}
	return k, errors.Join(
		read("causes of failures", failuresSQL, func(r *row) {
			k.failures[failure{r.text("service"), r.text("stage"), r.text("why"), r.text("root")}] = &sighting{version: r.text("version"), at: r.time("at")}
		}),
		read("versions", versionsSQL, func(r *row) {
			of := [2]string{r.text("service"), r.text("stage")}
			k.versions[of] = append(k.versions[of], sighting{version: r.text("version"), at: r.time("at")})
		}))
}

func (k *known) failure(kv map[string]string) *sighting {
	return k.failures[failure{kv["service"], kv["stage"], kv["cause"], kv["root_cause"]}]
}

// lastClean is the newest other version that made calls before first.
func (k *known) lastClean(kv map[string]string, first *sighting) string {
	for _, v := range k.versions[[2]string{kv["service"], kv["stage"]}] {
		if v.version != first.version && v.at.Before(first.at) {
			return v.version
		}
	}
	return ""
}

// Explain adds to the example of a what is stored of the violation that it stands for, and what to do.
func Explain(ctx context.Context, s Store, a *alerts.Alert) error {
	if a.Evidence.Example == nil {
		return nil
	}
	own := *a.Evidence.Example // the engine goes on with its own
	x := &own
	a.Evidence.Example, a.Evidence.Shares = x, slices.Clone(a.Evidence.Shares)
	why, root := x.Labels["cause"], x.Labels["root_cause"]
	res, err := s.Query(ctx, exampleSQL, map[string]string{"conversation": x.Conversation, "exchange": x.Exchange})
	if err != nil {
		return fmt.Errorf("read findings of an example: %w", err)
	}
	for _, values := range res.Rows {
		r := row{res: res, values: values}
		if r.text("root") == root && cause.OfRule(r.text("rule")) == why {
			x.Rule, x.Message, x.ToolCallID = r.text("rule"), int(r.int("message")), r.text("tool_call_id")
			x.Summary, x.Evidence, x.Fix = r.text("summary"), r.text("evidence"), r.text("fix")
		}
		if r.err != nil {
			return r.err
		}
		if x.Rule != "" {
			break
		}
	}
	if x.Fix == "" {
		_, x.Fix = cause.Meaning(why)
	}
	if len(a.Evidence.Shares) > 0 {
		a.Evidence.Shares[0].Fix = x.Fix
	}
	return nil
}
