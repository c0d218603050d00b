package alerts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/signals"
)

// State of an alert.
type State string

// The states that notifiers receive.
const (
	Firing   State = "firing"
	Resolved State = "resolved"
)

// An Alert is one instance of an alert rule.
type Alert struct {
	Name        string            // name of the rule, e.g. StageFailureRate
	Labels      map[string]string // labels of the series and of the rule (severity)
	Annotations map[string]string // with expanded templates
	State       State
	Value       float64 // latest value of the rule's expression
	Peak        float64
	StartsAt    time.Time // stream time
	EndsAt      time.Time // zero while firing
	UpdatedAt   time.Time // stream time of the last evaluation
	TriggeredAt time.Time // stream time of the first failed call that was new in the first firing evaluation
	FoundLate   bool      // began to fire more than a minute before a leading engine evaluated the rule, e.g. in an outage
	Unavailable string    // data beyond the evidence that cannot be queried now, e.g. calls while ClickHouse is down
	Evidence    Evidence
	Silence     *silence.Silence `json:",omitempty"` // the active silence, or the one at the end; nil if there is none
	Inhibitor   *Inhibitor       `json:",omitempty"` // the alert that hides this one, or did at its end; nil if there is none
	Revision    uint64           `json:",omitempty"` // number of changes of Silence and Inhibitor
	Hides       *Hidden          `json:",omitempty"` // the alerts that this one hides; nil if there are none
	Problem     string           `json:",omitempty"` // see Group.Problem
	Highest     string           `json:",omitempty"` // severity before it became less severe; "" if it is the highest
}

// ProblemLabel is the label of Problem in matchers.
const ProblemLabel = "problem"

// RateLimitNear is the Problem of alerts about rate limits that are nearly used up.
const RateLimitNear = "rate_limit_near"

// ID returns 32 hex digits that identify the alert in all its states, its severities too: a hash of series and start.
func (a *Alert) ID() string {
	return digest(16, fmt.Sprintf("%s,%d", a.Series(), a.StartsAt.UnixNano()))
}

// Matchable returns the labels that matchers see.
func (a *Alert) Matchable() map[string]string {
	if a.Problem == "" {
		return a.Labels
	}
	labels := maps.Clone(a.Labels)
	labels[ProblemLabel] = a.Problem
	return labels
}

// Routable returns the labels that matchers of routes see: those of Matchable, and the cause and root_cause of most failures.
func (a *Alert) Routable() map[string]string {
	labels := maps.Clone(a.Matchable())
	if labels == nil {
		labels = map[string]string{}
	}
	if s := a.Evidence.Shares; len(s) > 0 {
		for label, v := range map[string]string{"cause": s[0].Cause, "root_cause": s[0].RootCause} {
			if labels[label] == "" {
				labels[label] = v
			}
		}
	}
	return labels
}

// digest returns the first n bytes of the SHA-256 of text, in hex.
func digest(n int, text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:n])
}

// Unusual returns the measure that a says is unusual, or "".
func (a *Alert) Unusual() string {
	if a.Labels["direction"] == "" {
		return ""
	}
	return a.Labels["measure"]
}

// Severity returns the severity label.
func (a *Alert) Severity() string { return a.Labels["severity"] }

// Rank returns the order of the severity, the highest for alerts that page.
func (a *Alert) Rank() int { return rules.Rank(a.Severity()) }

// HighestRank returns the highest Rank that the alert had.
func (a *Alert) HighestRank() int { return max(a.Rank(), rules.Rank(a.Highest)) }

// Series returns a key that identifies the rule and the labels without severity.
func (a *Alert) Series() string { return rules.SeriesKey(a.Name, a.Labels) }

// Evidence is the cause, the service versions and examples of an alert. It is computed from exact tallies of the rule's
// window at the last evaluation for which the expression was true, or at the peak once the alert is resolved. Only
// LastFailed, CallsSince, Quiet and new versions are as of the alert's last evaluation (Alert.UpdatedAt).
type Evidence struct {
	Window     time.Duration
	Failed     uint64 // failed calls, or findings of Rules
	Calls      uint64
	Rules      []string            // rules and signals of the findings that Failed counts, sorted; empty if it counts failed calls
	LastFailed time.Time           // second of the last failed call, or of the last finding if the rule counts findings; zero if unknown
	CallsSince uint64              // calls in the seconds after LastFailed
	Quiet      bool                // there were no calls for a minute or longer after LastFailed
	Shares     []Share             // failed calls by cause, largest first
	Versions   []VersionCount      // calls by service version, in order of FirstSeen
	Running    []RunningVersion    `json:",omitempty"` // of an alert that counts no failures, but says what is unusual: the versions of the calls, in order of FirstSeen
	Differs    string              `json:",omitzero"`  // which calls failed, such as "only model a: 96 of 98 calls; 2 of 402 others"; empty if they are like the others
	Example    *analyzer.Example   // example of the largest share
	More       []*analyzer.Example // up to two, from other conversations: first from other material shares, then from the largest
}

// A RunningVersion is a service version with at least 5% of the calls.
type RunningVersion struct {
	Version   string
	FirstSeen time.Time // stream time of its first counted call; zero if unknown
}

// materialShare is the smallest share of the failed calls at which a cause or a version matters.
const materialShare = 0.05

// Material reports whether a cause or version with this number of failed calls matters.
func (ev *Evidence) Material(failed uint64) bool {
	return failed > 0 && float64(failed) >= materialShare*float64(ev.Failed)
}

// Lead returns the share that names the problem: the largest, with the root cause that is known of its cause if only a part of
// its failures shows it. ev has shares.
func (ev *Evidence) Lead() Share {
	lead := ev.Shares[0]
	if lead.ID() != lead.Cause {
		return lead
	}
	for _, s := range ev.Shares[1:] {
		if s.Cause == lead.Cause && s.ID() != s.Cause && ev.Material(s.Failed) {
			return s
		}
	}
	return lead
}

// EnoughCalls reports whether a version without failures in calls calls is clean, compared with one that failed in failed of all
// calls: at that share, it would have failed at least once with a probability of 95%.
func EnoughCalls(calls, failed, all uint64) bool {
	if failed == 0 || all == 0 {
		return false
	}
	return math.Pow(1-float64(min(failed, all))/float64(all), float64(calls)) <= 0.05
}

// Regression returns the first service version with the most frequent failure (the largest share), and the newest
// earlier version without it, which has made EnoughCalls. Both come from the ledger if available, otherwise from the window.
// They are empty if unknown.
func (ev *Evidence) Regression() (first, lastClean string) {
	if len(ev.Shares) > 0 && ev.Shares[0].FirstVersion != "" {
		return ev.Shares[0].FirstVersion, ev.Shares[0].LastClean
	}
	for i, v := range ev.Versions {
		if v.Failed == 0 {
			continue
		}
		if i > 0 && EnoughCalls(ev.Versions[i-1].Calls, v.Failed, v.Calls) {
			lastClean = ev.Versions[i-1].Version
		}
		return v.Version, lastClean
	}
	return "", ""
}

// ProviderChanged reports whether ev is about a provider that became stricter, or answers with another model, which no deployment explains.
func (ev *Evidence) ProviderChanged() bool {
	return len(ev.Rules) == 1 && (ev.Rules[0] == signals.ProviderTightened || ev.Rules[0] == signals.ModelChanged)
}

// CacheBroken reports whether ev counts calls that missed the prompt cache.
func (ev *Evidence) CacheBroken() bool {
	return len(ev.Rules) == 1 && ev.Rules[0] == signals.CacheBroken
}

// A Share counts the failed calls or findings with one cause and root cause.
type Share struct {
	Cause, RootCause string // Cause of a finding that is not about a failed call is its rule
	Guessed          bool   `json:",omitempty"` // the cause is a guess
	Failed           uint64
	Fix              string

	// The first call of these stages with this failure or defect, from the ledger, which covers weeks. Empty if unknown.
	FirstVersion string    // service version of the first call
	FirstAt      time.Time // stream time of the first call
	LastClean    string    // newest other version that the stage used before FirstAt, with EnoughCalls
	Earlier      bool      `json:",omitempty"` // there was another version before FirstAt, but with too few calls to tell whether it is clean
}

// ID returns the root cause if it is known, otherwise the cause.
func (s Share) ID() string {
	if s.RootCause == "" || s.RootCause == session.NoHistory {
		return s.Cause
	}
	return s.RootCause
}

// A VersionCount counts the calls of one service version in the window. For a version without failures in it, Calls
// includes the calls after the window.
type VersionCount struct {
	Version       string
	Failed, Calls uint64
	FirstSeen     time.Time // stream time of its first counted call; zero if unknown
	LastFailed    time.Time // second of its last failed call; zero if none failed
	CallsSince    uint64    // calls in the seconds after LastFailed; all calls since the start of the window if LastFailed is zero
}
