package web

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// A place is a line of an agent's code.
type place struct {
	Text string // core/agent.py:145, Agent.run
	URL  string // of the line; "" if it is unknown
}

// places returns the function of templates that returns the place of code, as event.Code.String writes it, in a version of a
// service; nil if there is none. template is that of CodeURL in Options.
func places(template string) func(version, code string) *place {
	return func(version, code string) *place {
		c, ok := event.ParseCode(code)
		switch {
		case code == "":
			return nil
		case !ok:
			return &place{Text: code}
		}
		p := &place{Text: fmt.Sprintf("%s:%d", c.File, c.Line)}
		if c.Function != "" {
			p.Text += ", " + c.Function
		}
		parts := strings.Split(c.File, "/")
		if template == "" || version == "" && strings.Contains(template, "{version}") || slices.Contains(parts, "..") {
			return p
		}
		for i := range parts {
			parts[i] = url.PathEscape(parts[i])
		}
		p.URL = strings.NewReplacer("{version}", url.PathEscape(version), "{file}", strings.Join(parts, "/"), "{line}", strconv.Itoa(c.Line)).Replace(template)
		return p
	}
}
