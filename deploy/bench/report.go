package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// columns are the numbers of a result.
var columns = []struct {
	name, format string
	value        func(*result) float64
}{
	{"calls/s", "%.0f", func(r *result) float64 { return float64(r.Calls) / r.Seconds }},
	{"MB/s", "%.0f", func(r *result) float64 { return float64(r.Bytes) / 1e6 / r.Seconds }},
	{"behind s", "%.1f", func(r *result) float64 { return r.Behind[0] }},
	{"99 %", "%.1f", func(r *result) float64 { return r.Behind[1] }},
	{"drain s", "%.1f", func(r *result) float64 { return r.Drain }},
	{"CPU s/GB", "%.1f", func(r *result) float64 { return sum(r.CPU) / r.gb() }},
	{"memory MB", "%.0f", func(r *result) float64 { return float64(r.Peak) / 1e6 }},
	{"disk/byte", "%.3f", func(r *result) float64 { return float64(r.Disk) / float64(r.Bytes) }},
	{"queue/byte", "%.2f", func(r *result) float64 { return float64(r.Queue) / float64(r.Bytes) }},
	{"lost", "%.0f", func(r *result) float64 { return float64(r.Calls - r.Stored) }},
	{"double", "%.0f", func(r *result) float64 { return float64(r.Double) }},
}

// gb returns the bytes of bodies in 10^9 bytes.
func (r *result) gb() float64 { return float64(r.Bytes) / 1e9 }

func sum(of map[string]float64) (n float64) {
	for _, v := range of {
		n += v
	}
	return n
}

// printResults prints a line for the results of each side: the medians, and the least and most if there are several results.
func printResults(w io.Writer, title string, sides ...[]*result) {
	table := [][]string{{title}}
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
