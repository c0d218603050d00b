package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestHighest(t *testing.T) {
	f := func(capacity float64) {
		t.Helper()
		tried := 0
		got, err := highest(firstRate, highestRate, func(rate float64) (bool, error) {
			tried++
			return rate <= capacity, nil
		})
		if err != nil || got > capacity || got*precision < min(capacity, highestRate/2) || tried > 24 {
			t.Errorf("capacity %g: %g after %d rates, %v", capacity, got, tried, err)
		}
	}
	for _, capacity := range []float64{1.5, 7, 99, 100, 101, 640, 12_345, 2e6} {
		f(capacity)
	}
	if _, err := highest(firstRate, highestRate, func(float64) (bool, error) { return false, nil }); err == nil {
		t.Error("no error if no rate is sustained")
	}
}

func TestTrend(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	f := func(name string, flat bool, value func(i int) float64) {
		t.Helper()
		var samples []Sample
		for i := range 30 {
			samples = append(samples, Sample{Seconds: float64(i) * 30, Heap: int64(value(i))})
		}
		got := trend(name, samples, func(s *Sample) float64 { return float64(s.Heap) })
		if got.Flat != flat {
			t.Errorf("%s: %+v, want flat %v", name, got, flat)
		}
	}
	f("constant", true, func(int) float64 { return 500 })
	f("zero", true, func(int) float64 { return 0 })
	f("noise of garbage collection", true, func(int) float64 { return 1e8 + 5e7*rnd.Float64() })
	f("a leak", false, func(i int) float64 { return 1e8 + 1e6*float64(i) })
	f("a leak in noise", false, func(i int) float64 { return 1e8 + 3e6*float64(i) + 1e7*rnd.Float64() })
	rising := trend("slope", []Sample{{Seconds: 0, Files: 10}, {Seconds: 1800, Files: 15}, {Seconds: 3600, Files: 20}}, func(s *Sample) float64 { return float64(s.Files) })
	if math.Abs(rising.PerHour-10) > 1e-9 {
		t.Errorf("10 per hour: %+v", rising)
	}
}

func TestLatency(t *testing.T) {
	var all []time.Duration
	for i := range 101 {
		all = append(all, time.Duration(100-i)*time.Second)
	}
	if diff := cmp.Diff(Latency{Count: 101, P50: 50, P99: 99, Most: 100}, latency(all)); diff != "" {
		t.Error(diff)
	}
	if latency(nil) != (Latency{}) {
		t.Error("no times")
	}
}

// The text of a full report fits into 80 columns.
func TestReportWidth(t *testing.T) {
	m := Measurement{
		Phase: "run", Rate: 123_456, Seconds: 1800, Calls: 222_222_222, Events: 444_444_444, Bytes: 9e12, Queryable: Latency{9999, 100, 200, 300, 9999},
		Alerting: &Latency{60, 1, 2, 3, 0}, Backlog: Backlog{1e8, 1e12}, Published: 222_222_222, Stored: 222_222_222, Lost: 222_222_222, Double: 222_222_222,
		CPU:    map[string]float64{NATS: 1e5, Analyzer: 1e5, Alert: 1e4, ClickHouse: 1e5, Load: 1e5},
		Memory: map[string]int64{NATS: 1e11, Analyzer: 1e11, Alert: 1e9, ClickHouse: 1e11},
		Stages: map[string]float64{"analyze": 1e4, "insert": 1e4, "write batches": 1e4, "checkpoint": 1e4},
		Volume: Volume{Inserts: 1e6, Checkpoints: 1e6, LedgerWrites: 1e7, TallyBytes: 1e10}, State: State{1e7, 1e11, 1e11},
	}
	stress := m
	stress.Phase, stress.CatchUp, stress.Alarms = "overload", m.Alerting, []Alarm{{"BacklogGrowing", "critical", 123}}
	x := Report{Seed: math.MaxUint64, Shape: "short", Services: 1000, Analyzers: 256, Partitions: 256, Cores: 256, Highest: 123_456, Run: m, Overload: &stress, Outage: &stress}
	for i := range 10 {
		x.Samples = append(x.Samples, Sample{Seconds: float64(i) * 360, Published: 1e9, Waiting: 1e6, Memory: m.Memory, Heap: 1e10, Goroutines: 1e5, Files: 1e4, Stream: 1e12, Store: 1e12 * int64(i)})
	}
	x.Trends = trends(x.Samples)
	var b strings.Builder
	x.write(&b)
	fmt.Fprintln(&b, sampleHeader)
	fmt.Fprintln(&b, x.Samples[9].line())
	t.Log("\n" + b.String())
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestValidate(t *testing.T) {
	f := func(want string, change func(*Options)) {
		t.Helper()
		o := Options{Duration: time.Minute, Services: 20}
		change(&o)
		err := o.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f("", func(*Options) {})
	f("--rate:", func(o *Options) { o.Rate = -1 })
	f("--duration:", func(o *Options) { o.Duration = 0 })
	f("--analyzers:", func(o *Options) { o.Analyzers = 257 })
	f("--partitions:", func(o *Options) { o.Analyzers, o.Partitions = 4, 2 })
	f("--services:", func(o *Options) { o.Services = 0 })
	f("--analyzers and --outage", func(o *Options) { o.Given, o.Outage = &Given{}, time.Second })
}
