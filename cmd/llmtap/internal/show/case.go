package show

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/reduce"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Limits of the exchanges before the fault in a Case, the newest ones.
const (
	maxSteps     = 100
	maxStepBytes = 16 << 20 // of the requests
)

// ErrNoFault means that no stored request has a fault for which its provider rejects it.
var ErrNoFault = errors.New("no stored request breaks a rule of its provider, so no test can check it; llmtap show prints the cause of a failure")

// Case returns an exchange with a fault, after the earlier exchanges of its conversation and stage. For a conversation, it is the
// first such exchange. The fault is the one that explains the failure, or else the first one.
func (s Store) Case(ctx context.Context, id string) (*Exchange, *reduce.Case, *reduce.Fault, error) {
	exchange, conversation, err := s.Resolve(ctx, id)
	if err != nil {
		return nil, nil, nil, err
	}
	if exchange == "" {
		if exchange, err = s.firstFault(ctx, conversation); err != nil {
			return nil, nil, nil, err
		}
	}
	e, err := s.Exchange(ctx, exchange)
	if err != nil {
		return nil, nil, nil, err
	}
	all := []*Exchange{e}
	if e.Conversation != "" {
		if all, err = s.until(ctx, e); err != nil {
			return nil, nil, nil, err
		}
	}
	c := &reduce.Case{Target: wire.Target{Dialect: wire.Dialect(e.Dialect), Variant: wire.Variant(e.Variant), Model: e.Model}}
	for _, e := range all {
		step, err := e.step()
		if err != nil {
			return nil, nil, nil, err
		}
		c.Steps = append(c.Steps, step)
	}
	found, _, err := c.Faults()
	if err != nil {
		return nil, nil, nil, err
	}
	f := e.fault(found)
	if f == nil {
		return nil, nil, nil, fmt.Errorf("call %s: %w", e.ID, ErrNoFault)
	}
	return e, c, f, nil
}

// firstFault returns the first exchange of a conversation with a finding that predicts a rejection.
func (s Store) firstFault(ctx context.Context, conversation string) (string, error) {
	all, err := readFindings(ctx, s.Q, conversation)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(f Finding) bool { return f.Predicted == "reject" && f.Severity == "reject" })
	if i < 0 {
		i = slices.IndexFunc(all, func(f Finding) bool { return f.Predicted == "reject" })
	}
	if i < 0 {
		return "", fmt.Errorf("conversation %s: %w", conversation, ErrNoFault)
	}
	return all[i].Exchange, nil
}

// until returns the exchanges of the conversation and stage of e until e, with their bodies.
func (s Store) until(ctx context.Context, e *Exchange) (all []*Exchange, err error) {
	_, turns, _, err := s.turns(ctx, e.Conversation)
	if err != nil {
		return nil, err
	}
	for _, t := range turns {
		if t.ID == e.ID {
			break
		}
		if t.Service == e.Service && t.Stage == e.Stage && t.Dialect == e.Dialect && t.storedAt.Before(e.storedAt) {
			all = append(all, t.Exchange)
		}
	}
	all = append(all[max(0, len(all)-maxSteps):], e)
	size := 0
	for i := len(all) - 2; i >= 0; i-- {
		if err := all[i].fill(ctx, s); err != nil {
			return nil, err
		}
		body, _ := all[i].Body()
		if size += len(body); size > maxStepBytes {
			return all[i+1:], nil
		}
	}
	return all, nil
}

// step returns e as a step of a case.
func (e *Exchange) step() (reduce.Step, error) {
	step := reduce.Step{Exchange: e.ID, Run: e.run, Process: e.process}
	body, ok := e.Body()
	if !ok {
		missing := "the request"
		if len(e.Missing) > 0 {
			missing = e.Missing[0]
		}
		return step, fmt.Errorf("call %s is incomplete; not stored: %s", e.ID, missing)
	}
	var err error
	if step.Request, err = reduce.Decode[map[string]any]([]byte(body)); err != nil {
		return step, fmt.Errorf("call %s: %w", e.ID, err)
	}
	for _, m := range records.Answer(wire.Dialect(e.Dialect), []byte(e.Answer)) {
		message, err := reduce.Decode[any](m)
		if err != nil {
			return step, fmt.Errorf("answer of LLM call %s: %w", e.ID, err)
		}
		step.Answer = append(step.Answer, message)
	}
	return step, nil
}

// fault returns the fault that explains the failure of e, or else the first new one, or nil.
func (e *Exchange) fault(found []reduce.Fault) (best *reduce.Fault) {
	score := 0
	for i := range found {
		f, n := &found[i], 1
		for j := range e.Findings {
			if stored := &e.Findings[j]; stored.Rule == f.Rule && stored.Message == f.Message {
				n, f.Stored = n+2, stored.RootCause
			}
		}
		if f.Rule == e.Cause {
			n += 4
		}
		if e.RootCause != "" && (f.RootCause == e.RootCause || f.Stored == e.RootCause) {
			n += 8
		}
		if n > score {
			best, score = f, n
		}
	}
	return best
}
