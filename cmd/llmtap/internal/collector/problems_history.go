package collector

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	problemsapi "github.com/llmtap/llmtap/cmd/llmtap/internal/problems" // problems is a type here
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const (
	// historyTimeout bounds the time in which ClickHouse must answer.
	historyTimeout = 5 * time.Second
	// historyStatement selects the newest rows of a group.
	historyStatement = "SELECT id, at, action, refused, actor, actor_name, via, silence_id, ends_at, comment FROM alert_actions FINAL WHERE group_key = {key:String} ORDER BY at DESC LIMIT 200"
)

// errNotStored says that a history has only what waits for ClickHouse.
var errNotStored = errors.New("ClickHouse does not answer; these are the actions that it has not stored yet")

// problemSource is the problems of this process with their history.
type problemSource struct {
	*problems
	query func() (rows.Querier, error)
}

var _ problemsapi.Source = problemSource{}

// decidable returns the problems of this process.
func (c *Collector) decidable() (problemsapi.Source, error) {
	if !c.cfg.HasRole(config.RoleAlert) {
		return nil, errors.New("this process does not evaluate alerts: ask a process with the role alert")
	}
	if p := c.problems.Load(); p != nil && p.ready() && p.controls.ready() {
		return problemSource{p, func() (rows.Querier, error) { return c.queryable() }}, nil
	}
	return nil, errors.New("the problems have not been read yet; retry in a few seconds")
}

// localProblems returns the problems of this process for a call of a coding agent.
func (c *Collector) localProblems(context.Context) (problemsapi.API, error) {
	source, err := c.decidable()
	return problemsapi.Local{Source: source, Pages: c.linkedPages()}, err
}

// History implements problemsapi.Source: the rows in ClickHouse, and those that wait for it in NATS.
func (s problemSource) History(ctx context.Context, key string) (list []sinks.AlertAction, missing error) {
	waiting, err := s.kv.Values(ctx, actionKey+"*")
	if err != nil {
		missing = fmt.Errorf("read the actions in NATS: %w", err)
	}
	for _, value := range waiting {
		var a sinks.AlertAction
		if err := json.Unmarshal(value, &a); err == nil && a.Group == key {
			list = append(list, a)
		}
	}
	stored, err := s.stored(ctx, key)
	if err != nil {
		missing = errors.Join(missing, err)
	}
	for _, a := range stored {
		if !slices.ContainsFunc(list, func(x sinks.AlertAction) bool { return x.ID == a.ID }) {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b sinks.AlertAction) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return list, missing
}

func (s problemSource) stored(ctx context.Context, key string) (list []sinks.AlertAction, err error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	q, err := s.query()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStored, err)
	}
	found, err := rows.Read(ctx, q, "the actions", historyStatement, map[string]string{"key": key})
	for _, r := range found {
		list = append(list, sinks.AlertAction{
			ID: r.Text("id"), At: r.Time("at"), Action: r.Text("action"), Refused: r.Bool("refused"), Actor: r.Text("actor"), ActorName: r.Text("actor_name"),
			Via: r.Text("via"), SilenceID: r.Text("silence_id"), EndsAt: r.Time("ends_at"), Comment: r.Text("comment"),
		})
	}
	if clickhouse.Unreachable(err) || errors.Is(err, context.DeadlineExceeded) {
		err = errNotStored
	}
	return list, err
}
