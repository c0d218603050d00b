package signals

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

const (
	retryWindow = 10 * time.Minute // time since the first refusal of a request
	stormSize   = 3                // minimum of refusals of one request
	poisonSize  = 3                // minimum of refused requests with one defect
	maxRetries  = 10_000           // refused requests; beyond them, the one with the oldest first refusal is dropped
)

// Completed finds the signals of a completed exchange. proof is the finding that explains the exchange, or nil. It
// returns the number of refused requests that were dropped to stay within the limit.
func (d *Detector) Completed(x *Exchange, proof *judge.Finding, minSeq uint64, now time.Time) (forgotten int) {
	switch {
	case x.Failed:
		d.failure(x)
	case x.accepted():
		d.latent(x)
	}
	forgotten = d.retryStorm(x, minSeq, now)
	d.poisoned(x, proof)
	return forgotten
}

// latent finds the defects of an accepted exchange that other targets would have refused.
func (d *Detector) latent(x *Exchange) {
	for i := range x.Findings {
		f := &x.Findings[i]
		in, own := f.Instance, judge.TargetName(x.Target.Dialect, x.Target.Variant)
		if in.Latent || len(in.RejectedBy) == 0 || !f.Latent() {
			continue
		}
		if f.Tolerated > 0 {
			if in.RejectedBy = slices.DeleteFunc(in.RejectedBy, func(t string) bool { return t == own }); len(in.RejectedBy) == 0 {
				continue
			}
		}
		in.Latent = true
		x.Signals = append(x.Signals, Signal{
			ID: LatentViolation, Detail: f.Rule.ID, Message: f.Message, CallID: f.ToolCallID, Tool: f.ToolName, Key: hex.EncodeToString(f.ID[:]),
			Summary: "accepted, though " + f.Summary, RejectedBy: in.RejectedBy, Fix: f.Fix(),
			Defect:   &Failure{Cause: f.Rule.ID, RootCause: in.Root.ID},
			Evidence: fmt.Sprintf("%s answered %d; rejected by %s", own, x.Status, strings.Join(in.RejectedBy, ", ")),
		})
	}
}

// failure finds the signals of a failed exchange.
func (d *Detector) failure(x *Exchange) {
	if x.Origin == event.OriginOTLP {
		return // a span may lack the status and the text that arrived, and its messages are not judged
	}
	s := Signal{Message: -1, Evidence: limit.Text(x.ErrorText, maxText)}
	switch {
	case x.Status == 0:
		s.ID, s.Detail, s.Summary = NoResponse, "error", "no answer arrived"
		if x.ErrorText == "" {
			s.Detail, s.Evidence = "timeout", fmt.Sprintf("no response event within %v", d.exchangeTimeout)
		}
		s.Fix = "Check the provider, the network and the process itself: it may have ended during the call."
	case (x.Status == 400 || x.Status == 422) && x.Cause == "unexplained" && x.Rejects == 0:
		s.ID, s.Key = Unexplained400, x.ErrorCluster
		s.Summary = fmt.Sprintf("status %d, and neither its text nor the request explains it", x.Status)
		s.Fix = "Read the text, and compare the request with the last accepted one."
	case x.Denial != "":
		s.ID, s.Detail, s.Key = ErrorRuleMismatch, x.Cause, x.Cause
		s.Summary = "the provider names " + x.Cause + ", but the request does not show it: " + x.Denial
		s.Fix = x.Fix
	case x.CauseKnown == cause.Conflict:
		shows := ""
		for i := range x.Findings {
			if f := &x.Findings[i]; f.Predicted == check.Reject {
				shows, s.Message, s.CallID = f.Rule.ID, f.Message, f.ToolCallID
				break
			}
		}
		s.ID, s.Detail, s.Key = ErrorRuleMismatch, x.Cause, x.Cause+" "+shows
		s.Summary = fmt.Sprintf("the provider names %s, the request shows %s", x.Cause, shows)
		s.Fix = "Look for a gateway that changes requests; otherwise fix the defect of the request first."
	default:
		return
	}
	d.once(x, s)
}

// retries counts the refusals of one request.
type retries struct {
	first Subject
	since time.Time
	n     int
}

// retryKey identifies a request in its conversation or, if the conversation id was not given, in its process.
func retryKey(x *Exchange) uint64 {
	scope := x.Labels.Conversation
	if scope == "" {
		scope = x.Process
	}
	if x.Origin == event.OriginImport {
		scope += "@" + x.Process // imports are independent of each other
	}
	return xxh3.HashStringSeed(scope, xxh3.HashStringSeed(x.Labels.Service, x.Request.Hash))
}

// retryStorm finds a request that is sent repeatedly and refused each time.
func (d *Detector) retryStorm(x *Exchange, minSeq uint64, now time.Time) (forgotten int) {
	if x.Turn == nil {
		return 0
	}
	if x.Status < 400 || wire.RetryableStatus(x.Status) {
		if x.accepted() && d.retries.Len() > 0 {
			d.retries.Take(retryKey(x))
		}
		return 0
	}
	key := retryKey(x)
	e := d.retries.Get(key)
	if e == nil {
		d.retries.Add(key, &retries{first: x.Subject, since: x.StartedAt, n: 1}, minSeq, now)
		for ; d.retries.Len() > maxRetries; forgotten++ {
			d.retries.TakeFirst()
		}
		return forgotten
	}
	r := e.Value
	if r.n++; !doubled(r.n, stormSize) {
		return 0
	}
	x.Signals = append(x.Signals, Signal{
		ID: RetryStorm, Detail: strconv.Itoa(x.Status), Message: -1, About: &r.first, Key: r.first.Exchange, Update: r.n > stormSize,
		Summary:  fmt.Sprintf("the same request was sent %d times and refused each time, now with status %d", r.n, x.Status),
		Evidence: fmt.Sprintf("since %s, first in LLM call %s, within %v", stamp(r.since), r.first.Exchange, x.StartedAt.Sub(r.since).Round(time.Second)),
		Fix:      "Do not retry a request that was refused with a status from 400 to 499, except 408, 409, 425 and 429.",
	})
	return 0
}

// poisoned finds a growing history that has been refused for the same defect since the defect entered the history.
func (d *Detector) poisoned(x *Exchange, proof *judge.Finding) {
	t := x.Turn
	if t == nil {
		return
	}
	if x.accepted() {
		t.SetStreak(nil)
	}
	if !x.Refused {
		return // failures of the server, the network or the account say nothing about the history
	}
	streak := t.Streak()
	var same *judge.Finding
	for i := range x.Findings {
		if streak != nil && x.Findings[i].ID == streak.Defect {
			same = &x.Findings[i]
			break
		}
	}
	switch {
	case same != nil:
		streak.Refused++
		streak.Length = x.Messages
	case proof == nil || proof.Predicted != check.Reject:
		t.SetStreak(nil)
		return
	default:
		t.SetStreak(&session.Streak{Defect: proof.ID, Exchange: x.Exchange, Since: x.StartedAt, Refused: 1, FirstLength: x.Messages, Length: x.Messages})
		return
	}
	if streak.Refused < poisonSize || streak.Length <= streak.FirstLength || streak.Refused < 2*streak.Reported {
		return
	}
	s := Signal{
		ID: PoisonedSession, Detail: same.Rule.ID, Message: same.Message, CallID: same.ToolCallID, Tool: same.ToolName, Update: streak.Reported > 0,
		Key:      hex.EncodeToString(streak.Defect[:]) + streak.Exchange,
		Summary:  fmt.Sprintf("%d requests in a row were refused with the same defect: %s", streak.Refused, same.Summary),
		Evidence: fmt.Sprintf("since %s, first in LLM call %s; the history grew from %d to %d messages with the defect in it", stamp(streak.Since), streak.Exchange, streak.FirstLength, streak.Length),
		Fix:      "Repair the stored history, or start a new one: every request with this one is refused.",
	}
	streak.Reported = streak.Refused
	d.times(x, &s)
	x.Signals = append(x.Signals, s)
}
