package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/backtest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/queries"
)

const backtestDoc = `When would alert rules have fired? Replays them over stored calls and notifies nobody. An expression is one of PromQL, such as ` +
	`sum by (service, stage) (increase(llmtap_failed_calls_total{status="400"}[10m])) > 20; an error names the nearest metric or label.`

type backtestInput struct {
	Rules string `json:"rules,omitempty" jsonschema:"rule file of Prometheus; default: the rules in force"`
	Since string `json:"since,omitempty" jsonschema:"default: 24h"`
	Until string `json:"until,omitempty" jsonschema:"default: now"`
}

// backtestLimit is the time after which the rest of a backtest is skipped, so that the call has an answer.
const backtestLimit = callTimeout - 10*time.Second

func (t *tools) backtest(ctx context.Context, in backtestInput) (answer, error) {
	if scope := access.ScopeOf(ctx); in.Rules == "" && !scope.All() {
		return answer{}, fmt.Errorf("the rules in force are about all services, and you see %s: pass rules", scope)
	}
	now, cfg := time.Now(), t.Rules
	from, err := queries.ParseTime(cmp.Or(in.Since, "24h"), now)
	if err != nil {
		return answer{}, err
	}
	until, err := queries.ParseTime(cmp.Or(in.Until, "now"), now)
	if err != nil {
		return answer{}, err
	}
	if !from.Before(until) {
		return answer{}, errors.New("since is not before until")
	}
	if in.Rules != "" {
		f, err := os.CreateTemp("", "llmtap-rules-*.yaml")
		if err != nil {
			return answer{}, err
		}
		defer func() { _ = os.Remove(f.Name()) }()
		_, err = f.WriteString(in.Rules)
		if err := cmp.Or(err, f.Close()); err != nil {
			return answer{}, err
		}
		cfg.RuleFiles = []string{f.Name()}
		_, problems := cfg.Rules().Lint(ctx)
		var errs []error
		for _, p := range problems {
			errs = append(errs, p)
		}
		if err := errors.Join(errs...); err != nil {
			return answer{}, errors.New(strings.ReplaceAll(err.Error(), f.Name(), "rules"))
		}
	}
	r, err := backtest.New(cfg, from, until, style())
	if err != nil {
		return answer{}, err
	}
	r.Limit = backtestLimit
	if err := t.withStore(ctx, func(q rows.Querier, _ func() string) error { return r.Run(ctx, cfg, t.Prices, q, io.Discard) }); err != nil {
		return answer{}, err
	}
	var b strings.Builder
	if err := r.Write(&b, command.Text); err != nil {
		return answer{}, err
	}
	return short(b.String(), r)
}
