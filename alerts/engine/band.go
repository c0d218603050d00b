package engine

import (
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts/usual"
)

// maxBandStages is the maximum number of stages that are added up: a second of the processor for a month.
const maxBandStages = 50

// A Band is what is usual of a measure in an hour, in the unit of llmtap_usual. It is zero if that is not known.
type Band struct{ Low, High float64 }

// Usual returns what is usual of measures in the hours of these times, by measure. It is that of the stage with these labels, of
// which empty ones are any. If there are several stages, only calls and spend, which can be added up, are known. Without anything
// known it returns no entry.
func (e *Engine) Usual(service, environment, stage string, at []time.Time, names ...string) map[string][]Band {
	found := e.baselines(stageKey{service, environment, stage}, names)
	out := map[string][]Band{}
	for i, m := range measures {
		list := found[i]
		if len(list) == 0 || len(list) > maxBandStages || len(list) > 1 && m.kind != usual.Amount && m.kind != usual.Spend {
			continue
		}
		bands, known := make([]Band, len(at)), false
		for j := range at {
			var sum Band
			all := true
			for k := range list {
				u := list[k].At(at[j].Truncate(time.Hour).Add(30 * time.Minute))
				sum.Low += u.Low / m.unit
				sum.High += u.High / m.unit
				all = all && u.Basis != usual.Nothing
			}
			if all {
				bands[j], known = sum, true
			}
		}
		if known {
			out[m.name] = bands
		}
	}
	return out
}

// baselines returns copies of the baselines of the stages that match k, by measure, without the others than names.
func (e *Engine) baselines(k stageKey, names []string) (out [measureCount][]usual.Baseline) {
	e.mu.Lock()
	defer e.mu.Unlock()
	u := e.samples.usuals
	if u == nil {
		return out
	}
	matches := func(want, have string) bool { return want == "" || want == have }
	for key, s := range u.stages {
		if !matches(k.service, key.service) || !matches(k.environment, key.environment) || !matches(k.stage, key.stage) {
			continue
		}
		for i, m := range measures {
			if !slices.Contains(names, m.name) || len(out[i]) > maxBandStages {
				continue
			}
			b, err := s.watches[i].Baseline.MarshalBinary() // a copy that shares no memory
			c := usual.Baseline{}
			if err == nil && c.UnmarshalBinary(b) == nil {
				out[i] = append(out[i], c)
			}
		}
	}
	return out
}
