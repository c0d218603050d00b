package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// A column is a number of a result.
type column struct {
	name, format string
	value        func(*result) float64
	shown        func(*result) bool // nil: always
}

var columns = []column{
	{"calls/s", "%.0f", func(r *result) float64 { return float64(r.Calls) / r.Seconds }, nil},
	{"steady calls/s", "%.0f", func(r *result) float64 { return float64(r.Steady.Calls) / max(r.Steady.Seconds, 1) }, steadily},
	{"MB/s", "%.0f", func(r *result) float64 { return float64(r.Bytes) / 1e6 / r.Seconds }, nil},
	{"behind s", "%.1f", func(r *result) float64 { return r.Behind[0] }, nil},
	{"99 %", "%.1f", func(r *result) float64 { return r.Behind[1] }, nil},
	{"to alert s", "%.1f", func(r *result) float64 { return r.Alert[0] }, alerted},
	{"99 %", "%.1f", func(r *result) float64 { return r.Alert[1] }, alerted},
	{"alerts missing", "%.0f", func(r *result) float64 { return float64(r.Alerts[0] - r.Alerts[1]) }, alerted},
	{"drain s", "%.1f", func(r *result) float64 { return r.Drain }, nil},
	{"CPU s/GB", "%.1f", func(r *result) float64 { return sum(r.CPU) / r.gb() }, nil},
	{"steady", "%.1f", func(r *result) float64 { return r.Steady.CPU / max(r.steadyGB(), 1e-9) }, steadily},
	{"load's", "%.1f", func(r *result) float64 { return r.Steady.LoadCPU / max(r.steadyGB(), 1e-9) }, steadily},
	{"memory MB", "%.0f", func(r *result) float64 { return float64(r.Peak) / 1e6 }, nil},
	{"disk/byte", "%.3f", func(r *result) float64 { return float64(r.Disk) / float64(r.Bytes) }, nil},
	{"queue/byte", "%.2f", func(r *result) float64 { return float64(r.Queue) / float64(r.Bytes) }, nil},
	{"search s", "%.2f", func(r *result) float64 { return r.Search }, searched},
	{"lost", "%.0f", func(r *result) float64 { return float64(r.Calls - r.Stored) }, nil},
	{"double", "%.0f", func(r *result) float64 { return float64(r.Double) }, nil},
}

func steadily(r *result) bool { return r.Steady.Seconds > 0 }
func alerted(r *result) bool  { return r.Alerts[0] > 0 }
func searched(r *result) bool { return r.Search > 0 }

// gb returns the bytes of bodies in 10^9 bytes.
func (r *result) gb() float64 { return float64(r.Bytes) / 1e9 }

// steadyGB returns the bytes of bodies that were stored in the steady part, in 10^9 bytes.
func (r *result) steadyGB() float64 { return r.gb() * float64(r.Steady.Calls) / float64(r.Calls) }

func sum(of map[string]float64) (n float64) {
	for _, v := range of {
		n += v
	}
	return n
}

// printResults prints a line for the results of each side: the medians, and the least and most if there are several results.
func printResults(w io.Writer, title string, sides ...[]*result) {
	table := [][]string{{title}}
	columns := slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return c.shown != nil && !slices.ContainsFunc(slices.Concat(sides...), c.shown)
	})
	for _, c := range columns {
		table[0] = append(table[0], c.name)
	}
	table[0] = append(table[0], "CPU s/GB by process", "memory MB by process")
	for _, of := range sides {
		if len(of) == 0 {
			continue
		}
		line := []string{of[0].Side}
		for _, c := range columns {
			line = append(line, spread(of, c.format, c.value))
		}
		var cpu, memory []string
		for _, name := range slices.Sorted(maps.Keys(of[0].CPU)) {
			cpu = append(cpu, fmt.Sprintf("%s %.1f", name, sorted(of, func(r *result) float64 { return r.CPU[name] / r.gb() })[len(of)/2]))
			memory = append(memory, fmt.Sprintf("%s %.0f", name, sorted(of, func(r *result) float64 { return float64(r.Sets[name]) / 1e6 })[len(of)/2]))
		}
		table = append(table, append(line, strings.Join(cpu, " + "), strings.Join(memory, " + ")))
	}
	printTable(w, table)
	fmt.Fprintln(w)
}

func sorted(of []*result, value func(*result) float64) (vs []float64) {
	for _, r := range of {
		vs = append(vs, value(r))
	}
	slices.Sort(vs)
	return vs
}

// spread returns the median of value and, if it differs, its least and most.
func spread(of []*result, format string, value func(*result) float64) string {
	vs := sorted(of, value)
	text := fmt.Sprintf(format, vs[len(vs)/2])
	least, most := fmt.Sprintf(format, vs[0]), fmt.Sprintf(format, vs[len(vs)-1])
	if least == most {
		return text
	}
	return fmt.Sprintf("%s (%s to %s)", text, least, most)
}

// printTable prints a table in Markdown, whose first line is its header.
func printTable(w io.Writer, table [][]string) {
	out := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	for i, line := range table {
		fmt.Fprintf(out, "| %s\t|\n", strings.Join(line, "\t| "))
		if i == 0 {
			fmt.Fprintf(out, "|%s\n", strings.Repeat("---\t|", len(line)))
		}
	}
	_ = out.Flush() // w is standard output
}
