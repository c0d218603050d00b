package llmtap

import "bytes"

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

// A terminal finds the end of the last event of a server-sent event stream, in whatever chunks it comes.
type terminal struct {
	line [48]byte // the first bytes of the line so far, more than any terminal line has
	n    int      // bytes of the line so far
	seen bool     // the event so far is terminal
}

// feed reads the next chunk. It returns how many bytes of p belong to the stream up to the blank line that ends its
// terminal event, or -1 while that has not come.
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
