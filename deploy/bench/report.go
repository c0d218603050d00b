package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
)

// printTable prints the results of one workload: of each side the median, and the least and most if there are several runs.
func printTable(results []result) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s\tMB/s\tCPU s/GB\tby process\tmemory MB\tby process\tdisk/byte\tqueue/byte\tlost\n", results[0].Workload)
	for _, side := range []string{"llmtap", "collector"} {
		var of []result
		for _, r := range results {
			if r.Side == side {
				of = append(of, r)
			}
		}
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(out, "%s", side)
		total := func(r result) (n float64) {
			for _, s := range r.CPU {
				n += s
			}
			return n
		}
		gb := func(r result) float64 { return float64(r.Bytes) / 1e9 }
		fmt.Fprintf(out, "\t%s", spread(of, "%.0f", func(r result) float64 { return float64(r.Bytes) / 1e6 / r.Seconds }))
		fmt.Fprintf(out, "\t%s\t", spread(of, "%.1f", func(r result) float64 { return total(r) / gb(r) }))
		for i, name := range slices.Sorted(maps.Keys(of[0].CPU)) {
			if i > 0 {
				fmt.Fprint(out, " + ")
			}
			fmt.Fprintf(out, "%s %.1f", name, median(of, func(r result) float64 { return r.CPU[name] / gb(r) }))
		}
		fmt.Fprintf(out, "\t%s\t", spread(of, "%.0f", func(r result) float64 { return float64(r.Peak) / 1e6 }))
		for i, name := range slices.Sorted(maps.Keys(of[0].Sets)) {
			if i > 0 {
				fmt.Fprint(out, " + ")
			}
			fmt.Fprintf(out, "%s %.0f", name, median(of, func(r result) float64 { return float64(r.Sets[name]) / 1e6 }))
		}
		fmt.Fprintf(out, "\t%s", spread(of, "%.3f", func(r result) float64 { return float64(r.Disk) / float64(r.Bytes) }))
		fmt.Fprintf(out, "\t%s", spread(of, "%.2f", func(r result) float64 { return float64(r.Queue) / float64(r.Bytes) }))
		fmt.Fprintf(out, "\t%s\n", spread(of, "%.0f", func(r result) float64 { return float64(r.Calls - r.Stored) }))
	}
	_ = out.Flush() // standard output
}

func median(of []result, value func(result) float64) float64 {
	vs := sorted(of, value)
	return vs[len(vs)/2]
}

func sorted(of []result, value func(result) float64) (vs []float64) {
	for _, r := range of {
		vs = append(vs, value(r))
	}
	slices.Sort(vs)
	return vs
}

// spread returns the median of value and, if it differs, its least and most.
func spread(of []result, format string, value func(result) float64) string {
	vs := sorted(of, value)
	text := fmt.Sprintf(format, vs[len(vs)/2])
	least, most := fmt.Sprintf(format, vs[0]), fmt.Sprintf(format, vs[len(vs)-1])
	if least == most {
		return text
	}
	return fmt.Sprintf("%s (%s to %s)", text, least, most)
}
