package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/problems"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
	"github.com/llmtap/llmtap/dashboards/access"
)

const (
	acknowledgeDoc = `Say that somebody handles the open incident of a problem: no reminders until a new incident. Ask the user first.`
	assignDoc      = `Say who handles a problem. Ask the user first.`
	resolveDoc     = `Say that a problem is fixed, in a version or in all: reminders end, and a further failure is a regression. Ask the user first.`
	silenceDoc     = `Notify nobody of a problem for a time; it is evaluated and stored as always. Ask the user first.`
	reopenDoc      = `Take back that a problem is resolved or silenced. Ask the user first.`
)

const actInstructions = `
acknowledge, assign, resolve, silence and reopen change what people are notified of, and are recorded with the name of the user: call them only if the user has asked for it.`

// A target is the problem of a decision, and why it was made.
type target struct {
	ID   string `json:"id" jsonschema:"id of a problem, from problems"`
	Note string `json:"note,omitempty" jsonschema:"why, for people who read the history of the problem"`
}

type acknowledgeInput struct {
	ID string `json:"id" jsonschema:"id of a problem, from problems"`
}

type assignInput struct {
	target
	To string `json:"to" jsonschema:"a person or a team; nobody: take the assignment back"`
}

type resolveInput struct {
	target
	FixedIn string `json:"fixed_in,omitempty" jsonschema:"version with the fix; default: all versions"`
}

type silenceInput struct {
	target
	For string `json:"for" jsonschema:"duration, such as 30m, 4h or 2d"`
}

// addActs adds the tools that change something. Those are destructive after which people are no longer notified of a failure.
func addActs(t *tools, s *mcp.Server) {
	add(t, s, "acknowledge", acknowledgeDoc, changes(false), func(ctx context.Context, in acknowledgeInput) (answer, error) {
		return t.decide(ctx, target{ID: in.ID}, alerts.ProblemDecision{Action: alerts.ActionAcknowledge})
	})
	add(t, s, "assign", assignDoc, changes(false), func(ctx context.Context, in assignInput) (answer, error) {
		switch in.To = strings.TrimSpace(in.To); in.To {
		case "":
			return answer{}, fmt.Errorf("to is empty; use %s to take the assignment back", problems.Nobody)
		case problems.Nobody:
			in.To = ""
		}
		return t.decide(ctx, in.target, alerts.ProblemDecision{Action: alerts.ActionAssign, Assignee: in.To})
	})
	add(t, s, "resolve", resolveDoc, changes(true), func(ctx context.Context, in resolveInput) (answer, error) {
		return t.decide(ctx, in.target, alerts.ProblemDecision{Action: alerts.ActionResolve, Version: in.FixedIn})
	})
	add(t, s, "silence", silenceDoc, changes(true), func(ctx context.Context, in silenceInput) (answer, error) {
		if in.For == "" {
			return answer{}, errors.New("for is empty: a silence without an end is for people")
		}
		_, until, err := silences.Period("now", "", in.For, time.Now())
		if err != nil {
			return answer{}, err
		}
		return t.decide(ctx, in.target, alerts.ProblemDecision{Action: alerts.ActionIgnore, Until: until})
	})
	add(t, s, "reopen", reopenDoc, changes(false), func(ctx context.Context, in target) (answer, error) {
		return t.decide(ctx, in, alerts.ProblemDecision{Action: alerts.ActionReopen})
	})
}

// changes are the annotations of a tool that changes something.
func changes(destructive bool) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{DestructiveHint: &destructive, IdempotentHint: true, OpenWorldHint: new(false)}
}

// decide stores d about the problem of to, and returns the problem with its history.
func (t *tools) decide(ctx context.Context, to target, d alerts.ProblemDecision) (answer, error) {
	api, err := t.Problems(ctx)
	if err != nil {
		return answer{}, err
	}
	d.Note = strings.TrimSpace(to.Note)
	if err := d.Validate(); err != nil {
		return answer{}, err
	}
	id, err := problems.Find(ctx, api, to.ID)
	if err != nil {
		return answer{}, err
	}
	access.Note(ctx, access.ChangeProblem, id, d.Action)
	who, _ := ctx.Value(actorKey{}).(string)
	p, err := api.Decide(ctx, id, d, alerts.Actor{ID: who, Via: "mcp"})
	if err != nil {
		return answer{}, err
	}
	return short(fmt.Sprintf("Done, by %s.\n%s\n%s\nundo: %s\n", who, problems.Title(&p), problems.Facts(&p, time.Now()), undo(d.Action, p.ID)), p)
}

// undo says how a decision is taken back.
func undo(action, id string) string {
	switch action {
	case alerts.ActionAcknowledge:
		return "on the page of the alert"
	case alerts.ActionAssign:
		return step{"assign", assignInput{target{ID: id}, problems.Nobody}}.String()
	case alerts.ActionReopen:
		return "resolve or silence"
	}
	return step{"reopen", target{ID: id}}.String()
}

type actorKey struct{}
