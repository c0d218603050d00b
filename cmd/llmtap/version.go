package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionInfo is what the build knows of itself.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func runVersion(_ context.Context, c *cli) error {
	fs := c.flags("version", "Print the version of this binary.\n\n  llmtap version\n  llmtap version --format json")
	format := fs.String("format", "text", "output as `text|json`")
	if err := c.parse(fs); err != nil {
		return err
	}
	v := buildVersion()
	if *format == "json" {
		return json.NewEncoder(c.stdout).Encode(v)
	}
	_, err := fmt.Fprintf(c.stdout, "llmtap %s %s %s\n", v.Version, v.Go, v.Platform)
	return err
}
