package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

// A Report is the result of a run.
type Report struct {
	Seed       uint64  `json:"seed"`
	Shape      string  `json:"shape"`
	Services   int     `json:"services"`
	Analyzers  int     `json:"analyzers"` // 0: one process of all roles
	Partitions int     `json:"partitions"`
	Given      bool    `json:"given_servers"`
	Cores      int     `json:"cores"`
	Highest    float64 `json:"highest_rate,omitempty"` // calls per second; 0: the rate was given, or none was sustained for the duration

	Search   []Step       `json:"search,omitempty"`
	Run      Measurement  `json:"run"`
	Overload *Measurement `json:"overload,omitempty"`
	Outage   *Measurement `json:"outage,omitempty"`
	Samples  []Sample     `json:"samples,omitempty"`
	Trends   []Trend      `json:"trends,omitempty"`
}

// A Step is one rate that the search tried.
type Step struct {
	Rate         float64 `json:"rate"`
	DrainSeconds float64 `json:"drain_seconds"`
	Sustained    bool    `json:"sustained"`
}

func newReport(o *Options) *Report {
	return &Report{
		Seed: o.Seed, Shape: o.Shape, Services: o.Services, Analyzers: o.Analyzers, Partitions: max(1, o.Analyzers, o.Partitions), Given: o.Given != nil,
		Cores: runtime.NumCPU(),
	}
}

// finish sets what follows from the phases.
func (x *Report) finish() {
	x.Trends = trends(x.Samples)
}

// Complete reports whether every published call is stored once.
func (x *Report) Complete() bool {
	for _, m := range []*Measurement{&x.Run, x.Overload, x.Outage} {
		if m != nil && (m.Lost > 0 || m.Double > 0) {
			return false
		}
	}
	return true
}

// Write writes the report in a format of command.Call.Format.
func (x *Report) Write(w io.Writer, format string) error {
	return command.WriteReport(w, format, x, x.write)
}

const width = 80 // of the text

// line writes a line of prose, which it wraps.
func line(b *strings.Builder, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	rest := strings.TrimLeft(text, " ")
	indent := text[:len(text)-len(rest)]
	for _, l := range terminal.Wrap(rest, width-len(indent), "") {
		b.WriteString(indent + l + "\n")
	}
}

func (x *Report) write(b *strings.Builder) {
	m := &x.Run
	line(b, "%s calls/s for %s: %s events/s, %.1f MB/s of bodies",
		number(m.perSecond(float64(m.Calls))), seconds(m.Seconds), number(m.perSecond(float64(m.Events))), m.perSecond(float64(m.Bytes)/1e6))
	switch {
	case x.Highest > 0:
		line(b, "This is the highest rate that is sustained, to within %.0f%%.", 100*(precision-1))
	case !m.Sustained:
		line(b, "Not sustained: of %s calls/s, %.0f%% could be published; everything was stored %s after the last call, %s calls/s on average.", number(m.Rate),
			100*m.Kept, seconds(m.DrainSeconds), number(m.Throughput()))
	}
	how := "one process of all roles"
	switch {
	case x.Given:
		how = "given servers"
	case x.Analyzers > 0:
		how = terminal.Plural(x.Analyzers, "analyzer") + " of " + terminal.Plural(x.Partitions, "partition")
	}
	line(b, "Fleet %q of %s, seed %d; %s; %s.", x.Shape, terminal.Plural(x.Services, "service"), x.Seed, how, terminal.Plural(x.Cores, "core"))
	writeLatencies(b, m)
	writeCosts(b, m)
	writeVolume(b, m)
	writeLoss(b, m)
	if x.Overload != nil {
		x.writeStress(b, x.Overload, "Overload: twice the rate, then half of it until all is stored")
	}
	if x.Outage != nil {
		x.writeStress(b, x.Outage, "Outage: ClickHouse stopped at half the rate, until all is stored")
	}
	if len(x.Trends) > 0 {
		x.writeTrends(b)
	}
}

func writeLatencies(b *strings.Builder, m *Measurement) {
	fmt.Fprintf(b, "\n%-32s%8s%8s%8s%9s%9s\n", "", "p50", "p99", "most", "measured", "missing")
	row := func(name string, l *Latency) {
		if l != nil {
			fmt.Fprintf(b, "%-32s%6.1f s%6.1f s%6.1f s%9d%9d\n", name, l.P50, l.P99, l.Most, l.Count, l.Missing)
		}
	}
	row("published to queryable", &m.Queryable)
	if m.CatchUp == nil {
		row("published to alert", m.Alerting)
		return
	}
	row("published to alert, meanwhile", m.Alerting)
	row("published to alert, afterwards", m.CatchUp)
}

// writeCosts writes CPU and memory by process.
func writeCosts(b *strings.Builder, m *Measurement) {
	if m.gb() == 0 {
		return
	}
	fmt.Fprintf(b, "\n%-32s%12s%12s%12s\n", "", "CPU s/GB", "CPU cores", "memory MB")
	row := func(name string, cpu float64, memory int64) {
		fmt.Fprintf(b, "%-32s%12.1f%12.2f%12s\n", name, cpu/m.gb(), m.perSecond(cpu), number(float64(memory)/1e6))
	}
	var cpu float64
	var memory int64
	for _, name := range []string{NATS, LLMTap, Analyzer, Alert, ClickHouse} {
		if used, ok := m.CPU[name]; ok {
			row(name, used, m.Memory[name])
			cpu, memory = cpu+used, memory+m.Memory[name]
		}
	}
	if memory > 0 {
		row("all of these", cpu, memory)
	}
	row("the load itself", m.CPU[Load], m.Memory[Load])
	fmt.Fprintf(b, "%-32s%12s%12.2f\n", "other work on this machine", "", m.Other)
	var parts []string
	for _, s := range stages {
		if v := m.Stages[s.name]; v > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f", s.name, v/m.gb()))
		}
	}
	if len(parts) > 0 {
		line(b, "Time that passes inside llmtap, s/GB: %s.", strings.Join(parts, ", "))
	}
}

func writeVolume(b *strings.Builder, m *Measurement) {
	if m.Volume.Inserts == 0 {
		return
	}
	b.WriteByte('\n')
	line(b, "Per second: %.1f inserts, %.1f checkpoints, %.1f ledger writes, %.1f KB of tallies.", m.perSecond(m.Volume.Inserts),
		m.perSecond(m.Volume.Checkpoints), m.perSecond(m.Volume.LedgerWrites), m.perSecond(m.Volume.TallyBytes)/1e3)
	if m.State.Conversations > 0 {
		line(b, "Conversations in memory: %s, of %.1f KB; %s forgotten for lack of memory.", number(m.State.Conversations),
			m.State.ConversationBytes/m.State.Conversations/1e3, number(m.Volume.Forgotten))
	}
}

func writeLoss(b *strings.Builder, m *Measurement) {
	b.WriteByte('\n')
	line(b, "Calls: %s published and acknowledged, %s stored, %s lost, %s double.",
		number(float64(m.Published)), number(float64(m.Stored)), number(float64(m.Lost)), number(float64(m.Double)))
}

func (x *Report) writeStress(b *strings.Builder, m *Measurement, title string) {
	fmt.Fprintf(b, "\n%s\n", title)
	line(b, "  %s calls/s; up to %s calls waited, the stream had up to %s MB on disk.", number(m.Rate), number(float64(m.Backlog.Calls)), number(float64(m.Backlog.Bytes)/1e6))
	line(b, "  All was stored %s after it.", seconds(m.DrainSeconds))
	var memory []string
	for _, name := range slices.Sorted(maps.Keys(m.Memory)) {
		if name != Load {
			memory = append(memory, fmt.Sprintf("%s %s MB", name, number(float64(m.Memory[name])/1e6)))
		}
	}
	line(b, "  Memory: %s.", strings.Join(memory, ", "))
	for _, a := range m.Alarms {
		line(b, "  Alarm after %s: %s (%s).", seconds(a.After), a.Name, a.Severity)
	}
	writeLatencies(b, m)
	writeLoss(b, m)
}

// writeTrends writes some of the samples, and the trends.
func (x *Report) writeTrends(b *strings.Builder) {
	const most = 20
	fmt.Fprintf(b, "\n%s\n", sampleHeader)
	for i := range min(most, len(x.Samples)) {
		fmt.Fprintln(b, x.Samples[i*len(x.Samples)/min(most, len(x.Samples))].line())
	}
	fmt.Fprintf(b, "\n%-32s%14s%18s\n", "Second half of the run", "mean", "change per hour")
	for _, t := range x.Trends {
		verdict := "grows"
		switch {
		case t.Flat:
			verdict = "flat"
		case t.PerHour < 0:
			verdict = "shrinks"
		}
		mean, change := number(t.Mean), number(t.PerHour)
		if t.Mean > 1e6 {
			mean, change = number(t.Mean/1e6)+" MB", number(t.PerHour/1e6)+" MB"
		}
		fmt.Fprintf(b, "%-32s%14s%18s  %s\n", t.Name, mean, change, verdict)
	}
}

const sampleHeader = "   time    published   waiting memory MB goroutines  files  stream MB   store MB"

func (s *Sample) line() string {
	var memory int64
	for _, n := range s.Memory {
		memory += n
	}
	return fmt.Sprintf("%7s%13s%10s%10s%11d%7d%11s%11s", seconds(s.Seconds), number(float64(s.Published)), number(float64(s.Waiting)), number(float64(memory)/1e6),
		s.Goroutines, s.Files, number(float64(s.Stream)/1e6), number(float64(s.Store)/1e6))
}

// seconds formats a time in seconds, such as 4.2 s or 30m.
func seconds(s float64) string {
	if s < 100 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", s), ".0") + " s"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// number formats a rounded number, such as 12,345.
func number(v float64) string { return terminal.Thousands(int(math.Round(v))) }
