package bench

import (
	"context"
	"math"
	"time"

	"github.com/llmtap/llmtap/deploy/bench/process"
)

// A Sample is the resources of all processes of llmtap and its servers at one time.
type Sample struct {
	Seconds    float64          `json:"seconds"` // since the phase began
	Published  int64            `json:"published"`
	Waiting    int64            `json:"waiting"` // published and not stored
	Memory     map[string]int64 `json:"memory"`  // resident set by process
	Heap       int64            `json:"heap"`    // of the Go processes
	Goroutines int64            `json:"goroutines"`
	Files      int64            `json:"open_files"`
	Stream     int64            `json:"stream_bytes"` // disk of NATS
	Store      int64            `json:"store_bytes"`  // disk of ClickHouse
}

// takeSamples adds a sample to the report at each interval, until ctx ends.
func (r *running) takeSamples(ctx context.Context) {
	r.report.Samples = nil // of a run that was not sustained
	r.Progress.Printf("%s", sampleHeader)
	for next := r.start.Add(r.sample); ; next = next.Add(r.sample) {
		sleepUntil(ctx, next)
		if ctx.Err() != nil {
			return
		}
		s, err := r.takeSample(ctx)
		if err != nil {
			continue // the trend is fitted to the others
		}
		r.report.Samples = append(r.report.Samples, s)
		r.Progress.Printf("%s", s.line())
	}
}

func (r *running) takeSample(ctx context.Context) (s Sample, err error) {
	m, err := r.target.metrics(ctx)
	if err != nil {
		return s, err
	}
	stored, err := r.stored(ctx)
	if err != nil {
		return s, err
	}
	s = Sample{
		Seconds: time.Since(r.start).Seconds(), Published: r.fleet.published.Load() - r.published, Waiting: r.waiting(stored), Memory: map[string]int64{},
		Heap: int64(m.Sum("go_memstats_heap_alloc_bytes")), Goroutines: int64(m.Sum("go_goroutines")),
	}
	for _, p := range r.target.processes() {
		s.Memory[p.Name] += p.RSS()
		s.Files += int64(p.Files())
	}
	if r.target.natsDir != "" {
		s.Stream, s.Store = process.SizeOf(r.target.natsDir), process.SizeOf(r.target.engineDir)
	}
	return s, nil
}

// A Trend says whether a resource grew in the second half of the samples.
type Trend struct {
	Name    string  `json:"name"`
	Mean    float64 `json:"mean"`            // of the second half
	PerHour float64 `json:"change_per_hour"` // slope of the line that fits the second half best
	Flat    bool    `json:"flat"`
}

// A resource is flat if the line that fits the second half of its samples changes by less than this share of their mean, or
// if its slope is within 2.5 standard errors of 0: noise is no trend.
const flatShare = 0.05

// trends returns the trends of the resources in samples; none if there are too few samples.
func trends(samples []Sample) (list []Trend) {
	half := samples[len(samples)/2:]
	if len(half) < 4 {
		return nil
	}
	add := func(name string, value func(*Sample) float64) {
		list = append(list, trend(name, half, value))
	}
	for _, name := range []string{LLMTap, NATS, Analyzer, Alert, ClickHouse} {
		if _, ok := half[0].Memory[name]; ok {
			add("memory of "+name, func(s *Sample) float64 { return float64(s.Memory[name]) })
		}
	}
	add("heap", func(s *Sample) float64 { return float64(s.Heap) })
	add("goroutines", func(s *Sample) float64 { return float64(s.Goroutines) })
	add("open files", func(s *Sample) float64 { return float64(s.Files) })
	add("waiting calls", func(s *Sample) float64 { return float64(s.Waiting) })
	add("disk of NATS", func(s *Sample) float64 { return float64(s.Stream) })
	add("disk of ClickHouse", func(s *Sample) float64 { return float64(s.Store) })
	return list
}

// trend fits a line to the values of samples by least squares.
func trend(name string, samples []Sample, value func(*Sample) float64) Trend {
	var meanX, meanY float64
	n := float64(len(samples))
	for i := range samples {
		meanX += samples[i].Seconds / n
		meanY += value(&samples[i]) / n
	}
	var xx, xy float64
	for i := range samples {
		dx := samples[i].Seconds - meanX
		xx += dx * dx
		xy += dx * (value(&samples[i]) - meanY)
	}
	slope := 0.
	if xx > 0 {
		slope = xy / xx
	}
	var rest float64 // squares of the deviations from the line
	for i := range samples {
		d := value(&samples[i]) - meanY - slope*(samples[i].Seconds-meanX)
		rest += d * d / n
	}
	change := math.Abs(slope) * (samples[len(samples)-1].Seconds - samples[0].Seconds)
	noise := math.Sqrt(rest * n / (n - 2) / xx) // standard error of the slope
	return Trend{Name: name, Mean: meanY, PerHour: slope * 3600, Flat: change <= flatShare*math.Abs(meanY) || math.Abs(slope) <= 2.5*noise}
}
