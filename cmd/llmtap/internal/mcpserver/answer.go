package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

const (
	maxAnswer = 7800 // bytes of the text of an answer, besides a line about the rest
	maxLine   = 300  // characters of a text from the traffic
)

// style is the style of all texts: lines are not broken, and times are in UTC.
func style() *terminal.Style { return &terminal.Style{Width: terminal.DefaultWidth, Unbroken: true} }

// cut returns at most n bytes of text, without a part of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// page returns the part of text that begins at offset and fits into an answer, and how to get the next one.
func page(text string, offset int) (string, error) {
	switch {
	case offset < 0 || offset > len(text):
		return "", fmt.Errorf("offset %d is not in the answer, which has %d bytes", offset, len(text))
	case offset > 0:
		for offset < len(text) && !utf8.RuneStart(text[offset]) {
			offset++
		}
	}
	part := cut(text[offset:], maxAnswer)
	end := offset + len(part)
	if end == len(text) {
		return part, nil
	}
	if line := strings.LastIndexByte(part, '\n'); line > maxAnswer/2 { // rather than within a line
		part, end = part[:line+1], offset+line+1
	}
	return fmt.Sprintf("%s\n[bytes %d to %d of %d; the rest: the same call with offset %d]", strings.TrimSuffix(part, "\n"), offset, end, len(text), end), nil
}

// short returns a text that has no pages as an answer. data is the same as JSON, which is omitted if it is too large.
func short(text string, data any) (answer, error) {
	if len(text) <= maxAnswer {
		return answer{text, data}, nil
	}
	part := cut(text, maxAnswer)
	part = part[:strings.LastIndexByte(part, '\n')+1]
	return answer{text: part + "\n[the rest is left out: add a service and a stage, or a shorter time range]"}, nil
}

// paged returns the page of a text as an answer.
func paged(text string, offset int) (answer, error) {
	part, err := page(strings.TrimRight(text, "\n"), offset)
	return answer{text: part}, err
}

// line returns text from the traffic on one line of at most n characters.
func line(text string, n int) string { return terminal.Middle(terminal.Line(cut(text, 16*n)), n) }

// A step is a call that continues an investigation.
type step struct {
	Tool      string `json:"tool"`
	Arguments any    `json:"arguments"`
}

func (s step) String() string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s.Arguments) // structs of strings
	return s.Tool + " " + strings.TrimSpace(b.String())
}

// stamp formats a time; the zero time and the Unix epoch, which is the zero time of ClickHouse, are "".
func stamp(t time.Time) string { return style().Time(t) }

// subject names a stage.
func subject(service, stage string) string {
	if service == "" && stage == "" {
		return "all services"
	}
	return strings.Trim(terminal.Clip(service, 80)+"/"+terminal.Clip(stage, 80), "/")
}
