package llmtap

import (
	"bytes"
	"encoding/json"
	"strings"
)

// An ending finds the end of a stream of events, in whatever chunks it comes.
type ending interface {
	// feed reads the next chunk. It returns how many bytes of p belong to the stream up to the end of its terminal event,
	// or -1 while that has not come.
	feed(p []byte) int

	// near says that the terminal event has come, though perhaps not its last line end.
	near() bool
}

// endingOf is the ending of a stream of contentType, nil if that is no stream.
func endingOf(contentType string) ending {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream":
		return new(terminal)
	case "application/x-ndjson", "application/ndjson", "application/jsonl":
		return new(lastLine)
	}
	return nil
}

// terminalLines are the lines that make their event the last of a stream: OpenAI chat, Anthropic, OpenAI Responses.
var terminalLines = []string{
	"data: [DONE]", "data:[DONE]",
	"event: message_stop", "event:message_stop",
	"event: response.completed", "event:response.completed",
	"event: response.failed", "event:response.failed",
	"event: response.incomplete", "event:response.incomplete",
}

// terminalPrefixes are the same for streams without event lines.
var terminalPrefixes = []string{
	`data: {"type":"message_stop"`, `data:{"type":"message_stop"`,
	`data: {"type":"response.completed"`, `data:{"type":"response.completed"`,
	`data: {"type":"response.failed"`, `data:{"type":"response.failed"`,
	`data: {"type":"response.incomplete"`, `data:{"type":"response.incomplete"`,
}

// A terminal is the ending of a server-sent event stream: the blank line behind its terminal event.
type terminal struct {
	line [48]byte // the first bytes of the line so far, more than any terminal line has
	n    int      // bytes of the line so far
	seen bool     // the event so far is terminal
}

func (t *terminal) near() bool { return t.seen }

func (t *terminal) feed(p []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			t.add(p[at:])
			return -1
		}
		t.add(p[at : at+i])
		at += i + 1
		if t.endLine() {
			return at
		}
	}
}

func (t *terminal) add(p []byte) {
	if t.n < len(t.line) {
		copy(t.line[t.n:], p)
	}
	t.n += len(p)
}

// endLine judges the line and begins the next one. It reports whether the line ended a terminal event.
func (t *terminal) endLine() bool {
	whole := t.n <= len(t.line)
	line := t.line[:min(t.n, len(t.line))]
	if whole {
		line = bytes.TrimSuffix(line, []byte{'\r'})
	}
	t.n = 0
	if whole && len(line) == 0 {
		return t.seen
	}
	for _, s := range terminalLines {
		t.seen = t.seen || whole && string(line) == s
	}
	for _, s := range terminalPrefixes {
		t.seen = t.seen || bytes.HasPrefix(line, []byte(s))
	}
	return false
}

// maxLine bounds the line that a lastLine looks into, in bytes; a last line is short, for it holds no text.
const maxLine = 16 << 10

// A lastLine is the ending of a stream of JSON lines as Ollama sends it: the line whose object says "done": true.
type lastLine struct {
	line []byte // the line so far; a longer one than maxLine is not the last
	long bool
}

func (l *lastLine) near() bool { return l.done() }

func (l *lastLine) feed(p []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			l.add(p[at:])
			return -1
		}
		l.add(p[at : at+i])
		at += i + 1
		done := l.done()
		l.line, l.long = l.line[:0], false
		if done {
			return at
		}
	}
}

func (l *lastLine) add(p []byte) {
	if l.long = l.long || len(l.line)+len(p) > maxLine; !l.long {
		l.line = append(l.line, p...)
	}
}

func (l *lastLine) done() bool {
	if l.long || !bytes.Contains(l.line, []byte("true")) { // spares nearly every line the reading
		return false
	}
	var object struct {
		Done bool `json:"done"`
	}
	return json.Unmarshal(l.line, &object) == nil && object.Done
}
