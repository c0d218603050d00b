package alerts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/quantity"
)

// States of a Problem, the first that applies.
const (
	ProblemIgnored      = "ignored"
	ProblemRegressed    = "regressed" // failed again in the version that was to fix it, or in a later one
	ProblemResolved     = "resolved"  // a person said so, or it has been quiet
	ProblemAcknowledged = "acknowledged"
	ProblemNew          = "new" // for a day
	ProblemOngoing      = "ongoing"
)

const (
	// newFor is the time for which a problem is new.
	newFor = 24 * time.Hour
	// minQuiet and maxQuiet bound the time without failures after which a problem counts as resolved.
	minQuiet, maxQuiet = time.Hour, 7 * 24 * time.Hour
	// An alert about what is unusual ends after an hour that was usual on average over some minutes, see package usual. So something was
	// unusual in the last unusualFor.
	unusualFor = 90 * time.Minute
	// maxProblemVersions bounds Problem.Versions; the newest are kept.
	maxProblemVersions = 10
)

// A Problem is one defect of one stage, over all its incidents: what has been seen of it, and what people have decided.
type Problem struct {
	Key         string           `json:"key"` // Group.Key
	Service     string           `json:"service"`
	Environment string           `json:"environment,omitempty"`
	Stage       string           `json:"stage,omitempty"`
	Cause       string           `json:"cause"`             // Group.Problem
	Kind        string           `json:"kind,omitempty"`    // of Cause: root cause, cause, rule or signal
	Guessed     bool             `json:"guessed,omitempty"` // Cause is a guess
	Measure     string           `json:"measure,omitempty"` // that is unusual; "" if the problem is about failures
	FirstSeen   time.Time        `json:"first_seen"`
	LastSeen    time.Time        `json:"last_seen"` // of a failure, in stream time
	Versions    []ProblemVersion `json:"versions,omitempty"`
	Rules       []string         `json:"rules"` // alert rules that found it
	Severity    string           `json:"severity"`
	Summary     string           `json:"summary"` // of the worst alert of the last incident
	Fix         string           `json:"fix,omitempty"`
	Incidents   int              `json:"incidents"`
	Incident    time.Time        `json:"incident"` // start of the last incident
	Firing      bool             `json:"firing"`
	Alert       string           `json:"alert"` // Alert.ID of the worst alert of the last incident

	Acknowledged *Decision   `json:"acknowledged,omitempty"`
	Assignee     string      `json:"assignee,omitempty"` // a person or a team, as typed or a Slack user id
	Assigned     *Decision   `json:"assigned,omitempty"`
	Resolved     *Resolution `json:"resolved,omitempty"`
	Regressed    *Regression `json:"regressed,omitempty"`
	Ignored      *Ignoring   `json:"ignored,omitempty"`
	Accepted     *Decision   `json:"accepted,omitempty"` // what is unusual in the last incident is the new normal
}

// Labels returns the labels of the calls of p.
func (p *Problem) Labels() map[string]string {
	return map[string]string{"service": p.Service, "environment": p.Environment, "stage": p.Stage}
}

// A ProblemVersion is a service version with failures of a problem, or one that ran while something was unusual.
type ProblemVersion struct {
	Version    string    `json:"version"`
	FirstCall  time.Time `json:"first_call"`  // of the version, which orders versions
	LastFailed time.Time `json:"last_failed"` // or last unusual
}

// A Decision is who decided something, and when.
type Decision struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// A Resolution is a person's statement that a problem is fixed.
type Resolution struct {
	Decision
	Version   string    `json:"version,omitempty"`   // in which it is fixed; "" if in all
	FirstCall time.Time `json:"first_call,omitzero"` // of Version; zero if it was not seen yet
}

// A Regression is the first failure that contradicts a Resolution.
type Regression struct {
	Version string     `json:"version"`
	At      time.Time  `json:"at"`
	Fixed   Resolution `json:"fixed"`
}

// Ignoring is a person's wish not to be notified of a problem. The silence SilenceID carries it out.
type Ignoring struct {
	Decision
	Until     time.Time `json:"until"`
	SilenceID string    `json:"silence_id"`
	// If Users is not zero, the silence also ends when so many more users are hit. Before is the number of users at the decision, Hit
	// that of those since. Both are counts of Users.
	Users  int `json:"users,omitempty"`
	Before int `json:"users_before,omitempty"`
	Hit    int `json:"users_hit,omitempty"`
}

// Enough reports whether as many more users were hit as the problem is ignored for.
func (i *Ignoring) Enough() bool { return i.Users > 0 && i.Hit >= i.Users }

// MoreUsers returns Users in words.
func (i *Ignoring) MoreUsers() string { return moreUsers(i.Users) }

func moreUsers(n int) string { return quantity.Plural(n, "more user") }

// ErrNoProblem is returned for the id of a problem that does not exist.
var ErrNoProblem = errors.New("there is no such problem")

// Actions of a ProblemDecision.
const (
	ActionAssign  = "assign"
	ActionResolve = "resolve"
	ActionIgnore  = "ignore"
	ActionReopen  = "reopen"
	ActionAccept  = "accept" // what is unusual is the new normal
	// ActionAcknowledge is an Ack of the open incident of the problem.
	ActionAcknowledge = "acknowledge"
)

// maxAssignee, maxVersion and maxNote bound a ProblemDecision, in bytes.
const maxAssignee, maxVersion, maxNote = 200, 200, 2000

// maxMoreUsers bounds ProblemDecision.Users, so that Users can count them.
const maxMoreUsers = 10_000

// A ProblemDecision is what a person decides about a problem.
type ProblemDecision struct {
	Action   string    `json:"action"`
	Assignee string    `json:"assignee,omitempty"` // of assign; "" for nobody
	Version  string    `json:"version,omitempty"`  // of resolve: the version with the fix; "" for all
	Until    time.Time `json:"until,omitzero"`     // of ignore; zero for ever
	Users    int       `json:"users,omitempty"`    // of ignore: ends it when so many more users are hit, if that is before Until; 0: however many
	Note     string    `json:"note,omitempty"`
}

// Validate returns an InvalidError if d makes no sense.
func (d *ProblemDecision) Validate() error {
	invalid := func(format string, args ...any) error {
		return &InvalidError{What: "decision", Err: fmt.Errorf(format, args...)}
	}
	if all := []string{ActionAssign, ActionResolve, ActionIgnore, ActionReopen, ActionAccept, ActionAcknowledge}; !slices.Contains(all, d.Action) {
		return invalid("unknown action %.50q: it must be one of %s", d.Action, strings.Join(all, ", "))
	}
	for _, x := range []struct {
		name, action, value string
		most                int
	}{{"assignee", ActionAssign, d.Assignee, maxAssignee}, {"version", ActionResolve, d.Version, maxVersion}, {"note", d.Action, d.Note, maxNote}} {
		switch {
		case x.value != "" && x.action != d.Action:
			return invalid("only %s has the field %s", x.action, x.name)
		case len(x.value) > x.most:
			return invalid("the field %s has more than %d bytes", x.name, x.most)
		}
	}
	switch {
	case !d.Until.IsZero() && d.Action != ActionIgnore:
		return invalid("only %s has the field until", ActionIgnore)
	case d.Note != "" && d.Action == ActionAcknowledge:
		return invalid("%s has no note", ActionAcknowledge)
	case d.Users != 0 && d.Action != ActionIgnore:
		return invalid("only %s has the field users", ActionIgnore)
	case d.Users < 0 || d.Users > maxMoreUsers:
		return invalid("the field users is not from 1 to %d", maxMoreUsers)
	}
	return nil
}

// Comment returns the decision without its action, in words.
func (d *ProblemDecision) Comment() string {
	var parts []string
	if d.Assignee != "" {
		parts = append(parts, "to "+d.Assignee)
	}
	if d.Version != "" {
		parts = append(parts, "fixed in "+d.Version)
	}
	if d.Users > 0 {
		parts = append(parts, "until it hits "+moreUsers(d.Users))
	}
	if d.Note != "" {
		return strings.Join(append(parts, d.Note), ": ")
	}
	return strings.Join(parts, ": ")
}

// Problems are the problems of an installation.
type Problems interface {
	// All returns all problems, the last seen first.
	All() []Problem
	// Get returns the problem with an ID; false if there is none.
	Get(ctx context.Context, id string) (Problem, bool, error)
	// Decide stores what a person decides about a problem and returns the problem. Its errors are ErrNoProblem, an InvalidError and
	// errors of the store, after which nothing has changed.
	Decide(ctx context.Context, id string, d ProblemDecision, by Actor) (Problem, error)
}

// ID returns GroupID of the problem.
func (p *Problem) ID() string { return GroupID(p.Key) }

// Quiet returns the time without failures after which the problem counts as resolved: ten times its mean interval between
// incidents, within an hour and a week.
func (p *Problem) Quiet() time.Duration {
	if p.Incidents < 2 {
		return 24 * minQuiet
	}
	return min(max(10*p.Incident.Sub(p.FirstSeen)/time.Duration(p.Incidents-1), minQuiet), maxQuiet)
}

// State returns the state of the problem at now.
func (p *Problem) State(now time.Time) string {
	switch {
	case p.Ignored != nil && now.Before(p.Ignored.Until):
		return ProblemIgnored
	case p.Regressed != nil && p.Resolved == nil:
		return ProblemRegressed
	case p.Resolved != nil, !p.Firing && (p.Accepted != nil || now.Sub(p.LastSeen) > p.Quiet()):
		return ProblemResolved
	case p.Acknowledged != nil:
		return ProblemAcknowledged
	case now.Sub(p.FirstSeen) < newFor:
		return ProblemNew
	}
	return ProblemOngoing
}

// Observe adds what g shows, the group of the problem. It reports whether that contradicts its resolution.
func (p *Problem) Observe(g *Group) (regressed bool) {
	worst := g.Worst()
	if p.Key == "" {
		p.Key, p.Cause, p.FirstSeen = g.Key, g.Problem(), g.Since()
		p.Service, p.Environment, p.Stage = worst.Labels["service"], worst.Labels["environment"], worst.Labels["stage"]
	}
	if since := g.Since(); since.After(p.Incident) {
		p.Incident, p.Incidents, p.Accepted = since, p.Incidents+1, nil
	}
	if m := worst.Unusual(); m != "" {
		p.Measure = m
	}
	p.Firing, p.Severity, p.Summary, p.Alert = g.Firing(), worst.Severity(), worst.Annotations["summary"], worst.ID()
	if p.Acknowledged = nil; g.Ack != nil {
		p.Acknowledged = &Decision{By: cmp.Or(g.Ack.ByName, g.Ack.By), At: g.Ack.At}
	}
	for i := range g.Alerts {
		a := &g.Alerts[i]
		if !slices.Contains(p.Rules, a.Name) {
			p.Rules = append(p.Rules, a.Name)
		}
		p.observe(&a.Evidence)
		if a.Evidence.LastFailed.IsZero() { // nothing failed; something is unusual
			p.observeUnusual(a)
		}
	}
	slices.Sort(p.Rules)
	slices.SortFunc(p.Versions, func(a, b ProblemVersion) int {
		return cmp.Or(a.FirstCall.Compare(b.FirstCall), cmp.Compare(a.Version, b.Version))
	})
	p.Versions = p.Versions[max(0, len(p.Versions)-maxProblemVersions):]
	if r := p.regression(); r != nil {
		p.Regressed, p.Resolved, regressed = r, nil, true
	}
	return regressed
}

// Decide applies d, which is valid and who decided. silence is the id of the silence that carries out ActionIgnore, users the number of
// users that the problem has hit.
func (p *Problem) Decide(d ProblemDecision, who Decision, silence string, users int) {
	switch d.Action {
	case ActionAssign:
		if p.Assignee, p.Assigned = d.Assignee, &who; d.Assignee == "" {
			p.Assigned = nil
		}
	case ActionResolve:
		r := Resolution{Decision: who, Version: d.Version}
		for _, x := range p.Versions {
			if x.Version == d.Version {
				r.FirstCall = x.FirstCall
			}
		}
		p.Resolved, p.Regressed = &r, nil
	case ActionIgnore:
		p.Ignored = &Ignoring{Decision: who, Until: d.Until, SilenceID: silence, Users: d.Users, Before: users}
	case ActionReopen:
		p.Resolved, p.Regressed, p.Ignored = nil, nil, nil
	case ActionAccept:
		p.Accepted, p.Resolved, p.Regressed = &who, nil, nil
	}
}

// observe adds the failures of ev. Those of a version with other causes, too, may not be of this problem.
func (p *Problem) observe(ev *Evidence) {
	if ev.LastFailed.After(p.LastSeen) {
		p.LastSeen = ev.LastFailed
	}
	for _, s := range ev.Shares {
		if s.ID() == p.Cause {
			p.Fix, p.Guessed = cmp.Or(s.Fix, p.Fix), s.Guessed
			if !s.FirstAt.IsZero() && s.FirstAt.Before(p.FirstSeen) {
				p.FirstSeen = s.FirstAt
			}
		}
	}
	for _, v := range ev.Versions {
		if v.Failed == 0 || !ev.Material(v.Failed) {
			continue
		}
		p.seenIn(v.Version, v.FirstSeen, v.LastFailed)
	}
}

// observeUnusual adds the versions that run while a says that something is unusual.
func (p *Problem) observeUnusual(a *Alert) {
	if a.UpdatedAt.After(p.LastSeen) {
		p.LastSeen = a.UpdatedAt
	}
	at := a.UpdatedAt.Add(-unusualFor)
	if at.Before(a.StartsAt) {
		at = a.StartsAt
	}
	for _, v := range a.Evidence.Running {
		if a.State == Firing && !v.FirstSeen.After(at) {
			p.seenIn(v.Version, v.FirstSeen, at)
		}
	}
}

// seenIn adds that the problem was seen in a version.
func (p *Problem) seenIn(version string, firstCall, at time.Time) {
	i := slices.IndexFunc(p.Versions, func(x ProblemVersion) bool { return x.Version == version })
	if i < 0 {
		p.Versions = append(p.Versions, ProblemVersion{Version: version, FirstCall: firstCall, LastFailed: at})
		return
	}
	if x := &p.Versions[i]; at.After(x.LastFailed) {
		x.LastFailed = at
	}
}

// regression returns the newest failure after the resolution in the version that was to fix the problem, or in a later one; nil
// if there is none. Versions are ordered by their first calls. Failures of older versions that still run contradict nothing.
func (p *Problem) regression() *Regression {
	r := p.Resolved
	if r == nil {
		return nil
	}
	for _, v := range slices.Backward(p.Versions) {
		from := r.FirstCall
		if from.IsZero() {
			from = r.At // nobody had called with the version yet
		}
		fixed := r.Version == "" || v.Version == r.Version || !v.FirstCall.IsZero() && !v.FirstCall.Before(from)
		if fixed && v.LastFailed.After(r.At) {
			return &Regression{Version: v.Version, At: v.LastFailed, Fixed: *r}
		}
	}
	return nil
}
