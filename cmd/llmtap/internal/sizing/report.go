package sizing

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

// Factors are the sizes of the fleet in a report.
var Factors = []float64{1, 10, 100, 1000}

// A Report is the result of llmtap size.
type Report struct {
	Measured Measured `json:"measured"`
	Needs    []Need   `json:"needs"`  // by Factors
	Limits   []Limit  `json:"limits"` // the first to be reached first
}

// NewReport returns the needs of f at each of Factors, and its limits.
func NewReport(f Fleet, m *Measured, cfg *config.Config) *Report {
	if f.Conversations == 0 {
		f.Conversations = f.Calls / callsPerConversation * cfg.Analyzer.SessionLookback.Seconds()
	}
	x := &Report{Measured: *m, Limits: Limits(f, m, cfg)}
	for _, n := range Factors {
		x.Needs = append(x.Needs, Compute(f.times(n), m, cfg))
	}
	return x
}

// Write writes the report in a format of command.Call.Format.
func (x *Report) Write(w io.Writer, format string) error {
	return command.WriteReport(w, format, x, x.write)
}

func (x *Report) write(b *strings.Builder) {
	f := &x.Needs[0].Fleet
	fmt.Fprintf(b, "Calls of %s, %s of them new; machines of %.0f cores; memory.limit %.0f GiB;\n%.0f NATS replicas.\n\n", unit(f.CallBytes, "B"), unit(f.NewBytes, "B"), f.Cores, f.Memory/(1<<30), f.Replicas)
	line := func(name string, value func(*Need) string) {
		fmt.Fprintf(b, "%-32s", name)
		for i := range x.Needs {
			fmt.Fprintf(b, "%12s", value(&x.Needs[i]))
		}
		b.WriteByte('\n')
	}
	count := func(name string, value func(*Need) float64) {
		line(name, func(n *Need) string { return terminal.Thousands(int(math.Ceil(value(n) - 1e-9))) })
	}
	amount := func(name, of string, value func(*Need) float64) {
		line(name, func(n *Need) string { return unit(value(n), of) })
	}
	count("calls per second", func(n *Need) float64 { return n.Fleet.Calls })
	amount("bodies per second", "B", func(n *Need) float64 { return n.Bytes })
	count("conversations in half an hour", func(n *Need) float64 { return n.Fleet.Conversations })
	count("services", func(n *Need) float64 { return n.Fleet.Services })
	b.WriteByte('\n')
	count("installations", func(n *Need) float64 { return n.Streams })
	count("analyzer processes", func(n *Need) float64 { return n.Analyzers })
	line("  cores", func(n *Need) string { return cores(n.AnalyzerCores) })
	count("  partitions", func(n *Need) float64 { return n.Partitions })
	amount("  memory of conversations", "B", func(n *Need) float64 { return n.SessionBytes })
	count("NATS nodes", func(n *Need) float64 { return n.NATSNodes })
	line("  cores", func(n *Need) string { return cores(n.NATSCores) })
	count("  KV writes per second", func(n *Need) float64 { return n.KVWrites })
	amount("  tallies per second", "B", func(n *Need) float64 { return n.TallyBytes })
	count("  subjects", func(n *Need) float64 { return n.Subjects })
	amount("  memory of subjects", "B", func(n *Need) float64 { return n.SubjectBytes })
	amount("  network of all nodes", "bit/s", func(n *Need) float64 { return n.Network })
	amount("  disk for half an hour", "B", func(n *Need) float64 { return n.StreamDisk })
	count("ClickHouse nodes", func(n *Need) float64 { return n.ClickHouseNodes })
	line("  cores", func(n *Need) string { return cores(n.ClickHouseCores) })
	count("  inserts (parts) per second", func(n *Need) float64 { return n.Inserts })
	amount(fmt.Sprintf("  disk for %.0f days", f.RetentionDays), "B", func(n *Need) float64 { return n.StoreDisk })
	b.WriteString("\nWhat breaks first, at how many calls per second (the first with the defaults and\none analyzer):\n")
	most := 10 * x.Needs[len(x.Needs)-1].Fleet.Calls
	for _, l := range x.Limits {
		if l.Calls > most {
			break
		}
		first := fmt.Sprintf("%9s  ", short(l.Calls))
		for _, text := range terminal.Wrap(l.What+". Change: "+l.Change+".", 80-len(first), "") {
			fmt.Fprintf(b, "%s%s\n", first, text)
			first = strings.Repeat(" ", len(first))
		}
	}
}

// cores formats a number of cores.
func cores(n float64) string { return fmt.Sprintf("%.*f", digits(n), n) }

// digits returns the number of decimals with which n has two significant digits.
func digits(n float64) int {
	switch {
	case n < 0.995:
		return 2
	case n < 9.95:
		return 1
	}
	return 0
}

// short formats a rate with two significant digits, such as 1,200.
func short(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	scale := math.Pow(10, math.Floor(math.Log10(n))-1)
	return terminal.Thousands(int(math.Round(n/scale) * scale))
}

// unit formats n with a decimal prefix, such as 1.2 GB.
func unit(n float64, of string) string {
	prefixes := []string{"", "k", "M", "G", "T", "P"}
	i := 0
	for n >= 999.5 && i < len(prefixes)-1 {
		n, i = n/1000, i+1
	}
	return fmt.Sprintf("%.*f %s%s", digits(n), n, prefixes[i], of)
}
