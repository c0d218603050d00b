package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
)

var versionCommand = &command.Command{
	Name:     "version",
	Short:    "Print the version",
	Examples: "  llmtap version\n  llmtap version --format json",
	Run:      runVersion,
}

// A versionInfo describes this binary.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildVersion() versionInfo {
	b := versionInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func runVersion(_ context.Context, c *command.Call) error {
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	b := buildVersion()
	if *format == command.JSON {
		return command.WriteJSON(c.Stdout, b)
	}
	_, err := fmt.Fprintf(c.Stdout, "llmtap %s %s %s\n", b.Version, b.Go, b.Platform)
	return err
}
