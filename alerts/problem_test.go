package alerts

import (
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The life of a problem: new, resolved by a person, contradicted only by a version that should not have it, ignored, quiet.
func TestProblem(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	deployed := map[string]time.Time{"1.9.0": now.Add(-time.Hour), "1.10.0": now, "1.10.1": now.Add(2 * time.Hour)}
	group := func(at time.Time, state State, version string) *Group {
		return &Group{Key: `problem{service="shop",stage="planner",problem="lost"}`, Alerts: []Alert{{
			Name: "StageFailureRate", State: state, Labels: map[string]string{"service": "shop", "stage": "planner", "severity": "critical"}, Problem: "lost", StartsAt: at,
			Evidence: Evidence{
				Failed: 10, Calls: 20, LastFailed: at.Add(time.Minute), Shares: []Share{{Cause: "orphan", RootCause: "lost", Failed: 10, Fix: "Save it."}},
				Versions: []VersionCount{{Version: version, Failed: 10, Calls: 20, FirstSeen: deployed[version], LastFailed: at.Add(time.Minute)}},
			},
		}}}
	}
	var p Problem
	state := func(at time.Time, want string) {
		t.Helper()
		must.Equal(t, p.State(at), want, "state at %s", at.Format(time.TimeOnly))
	}
	p.Observe(group(now, Firing, "1.10.0"))
	p.Observe(group(now, Firing, "1.10.0")) // the same incident
	state(now.Add(time.Minute), ProblemNew)
	if p.Incidents != 1 || p.Stage != "planner" || p.Cause != "lost" || p.Fix != "Save it." || !p.Firing || len(p.Versions) != 1 {
		t.Errorf("%+v", p)
	}
	state(now.Add(25*time.Hour), ProblemOngoing)
	p.Acknowledged = &Decision{By: "anna"}
	state(now.Add(25*time.Hour), ProblemAcknowledged)

	fixed := now.Add(time.Hour)
	p.Resolved = &Resolution{Decision: Decision{By: "anna", At: fixed}, Version: "1.10.1"} // not deployed yet
	state(fixed, ProblemResolved)
	if p.Observe(group(fixed.Add(time.Hour), Firing, "1.9.0")) || p.Observe(group(fixed.Add(time.Hour), Firing, "1.10.0")) {
		t.Error("failures of older versions contradict the fix")
	}
	state(fixed.Add(time.Hour), ProblemResolved)
	if !p.Observe(group(fixed.Add(2*time.Hour), Firing, "1.10.1")) || p.Regressed.Version != "1.10.1" || p.Regressed.Fixed.By != "anna" {
		t.Errorf("no regression: %+v", p.Regressed)
	}
	state(fixed.Add(2*time.Hour), ProblemRegressed)

	p.Ignored = &Ignoring{Until: fixed.Add(5 * time.Hour)}
	state(fixed.Add(4*time.Hour), ProblemIgnored)
	state(fixed.Add(6*time.Hour), ProblemRegressed)
	p.Regressed, p.Ignored = nil, nil
	p.Observe(group(fixed.Add(2*time.Hour), Resolved, "1.10.1"))
	state(fixed.Add(2*time.Hour+10*time.Minute), ProblemNew)
	state(fixed.Add(400*time.Hour), ProblemResolved) // quiet for far longer than between its incidents

	// Without a version, every later failure contradicts.
	p.Resolved = &Resolution{Decision: Decision{At: fixed.Add(500 * time.Hour)}}
	if !p.Observe(group(fixed.Add(501*time.Hour), Firing, "1.9.0")) {
		t.Error("no regression")
	}
}

// A problem about what is unusual, of which no call fails, is a regression if it comes back while the version that was to fix it runs. The
// alert from before the fix, which ends only after an hour that was usual, contradicts nothing.
func TestUnusualProblemRegresses(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	group := func(since, at time.Time, state State, versions ...RunningVersion) *Group {
		return &Group{Key: `problem{service="shop",problem="duration_high"}`, Alerts: []Alert{{
			Name: "LatencyUnusual", State: state, Labels: map[string]string{"service": "shop", "measure": "duration"}, Problem: "duration_high",
			StartsAt: since, UpdatedAt: at, Evidence: Evidence{Running: versions},
		}}}
	}
	before := RunningVersion{"1.0", now.Add(-48 * time.Hour)}
	resolved := func() (p Problem) {
		p.Observe(group(now, now.Add(time.Minute), Firing, before))
		must.Equal(t, len(p.Versions), 1, "versions")
		p.Decide(ProblemDecision{Action: ActionResolve, Version: "1.1"}, Decision{By: "anna", At: now.Add(10 * time.Minute)}, "", 0)
		return p
	}
	fix := RunningVersion{"1.1", now.Add(20 * time.Minute)}
	f := func(want string, g *Group) {
		t.Helper()
		p := resolved()
		got := ""
		if p.Observe(g) {
			got = p.Regressed.Version
		}
		must.Equal(t, got, want, "version of the regression")
		if want != "" {
			must.Equal(t, p.State(now), ProblemRegressed, "state")
		}
	}
	f("", group(now, now.Add(109*time.Minute), Firing, before, fix))    // the alert of before
	f("1.1", group(now, now.Add(111*time.Minute), Firing, before, fix)) // it should be over
	f("1.1", group(now.Add(5*time.Hour), now.Add(5*time.Hour), Firing, fix))
	f("1.2", group(now.Add(5*time.Hour), now.Add(5*time.Hour), Firing, fix, RunningVersion{"1.2", now.Add(time.Hour)}))
	f("", group(now.Add(5*time.Hour), now.Add(5*time.Hour), Firing, before)) // the fix is not deployed
	f("", group(now.Add(5*time.Hour), now.Add(6*time.Hour), Resolved, fix))
}

// The cause of a problem is a guess until an alert knows it.
func TestProblemGuessed(t *testing.T) {
	var p Problem
	for _, guessed := range []bool{true, false} {
		p.Observe(&Group{Key: "k", Alerts: []Alert{{Problem: "auth", Evidence: Evidence{Shares: []Share{{Cause: "auth", Guessed: guessed}}}}}})
		must.Equal(t, p.Guessed, guessed, "guessed")
	}
}
