// Command generate writes the dashboards to the current directory.
package main

import (
	"fmt"
	"os"

	"github.com/llmtap/llmtap/dashboards/grafana"
)

func main() {
	for name, text := range grafana.Files() {
		if err := os.WriteFile(name, text, 0o644); err != nil { //nolint:gosec // a public file
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
