package explain

import (
	"bytes"
	"regexp"
	"strconv"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/ingest/wire"
)

const (
	window  = 4 << 10 // how much of a text cause.Classify reads without a gap
	overlap = 512     // how far from its ends a window looks for the end of a line; else two windows share so much
	maxRead = 1 << 20 // of a text, from its end
)

// telling is the part of a long text that says most. A body states its fault at the start, and a log or a traceback at
// the end, so these are tried in this order. A text in which nothing is known is its own start.
func telling(text []byte, status int, v wire.Variant) []byte {
	text = withoutFrames(text)
	if len(text) <= window {
		return text
	}
	said := func(part []byte) bool {
		c := cause.Classify(cause.Input{Status: status, Text: part, Variant: v})
		return c.Known == cause.Stated && c.StatedBy != "" && c.StatedBy != "status"
	}
	head := text[:window]
	if n := bytes.LastIndexByte(head[window-overlap:], '\n'); n >= 0 {
		head = head[:window-overlap+n+1]
	}
	if said(head) {
		return head
	}
	for end := len(text); end > len(text)-maxRead; {
		start := max(0, end-window)
		line := bytes.IndexByte(text[start:start+overlap], '\n')
		if start > 0 && line >= 0 {
			start += line + 1
		}
		if said(text[start:end]) {
			return text[start:end]
		}
		if start == 0 {
			break
		}
		if end = start; line < 0 {
			end += overlap
		}
	}
	return text
}

// frame is a place in the code on a stack, as Python and JavaScript print it.
var frame = regexp.MustCompile(`^\s+(?:File ".*", line \d+|at (?:.*:\d+:\d+\)?|.*\(.*:\d+\))$)`)

// withoutFrames drops the frames of a stack from text: they are code, and code may hold the words of any error.
func withoutFrames(text []byte) []byte {
	if !bytes.Contains(text, []byte("\n  ")) {
		return text
	}
	var out []byte
	inFrame, cut := false, false
	for line := range bytes.Lines(text) {
		body := bytes.TrimRight(line, "\r\n")
		switch indent := len(body) - len(bytes.TrimLeft(body, " \t")); {
		case frame.Match(body[:min(len(body), 1024)]):
			inFrame, cut = true, true
		case inFrame && (indent >= 4 || len(body) == 0): // the line of code, and the marks below it
		default:
			inFrame = false
			out = append(out, line...)
		}
	}
	if !cut {
		return text
	}
	return out
}

// stated are the ways in which texts tell the HTTP status. A number alone says nothing.
var stated = regexp.MustCompile(`(?i)(?:error code|(?:client|server) error|status[ _]?code|http[ _]?(?:status|error|code)|"?code["']?|http/\d(?:\.\d)?|\bhttp|status)["']?\s*[:=(]?\s*["']?([45]\d\d)\b` +
	`|^\W*(?:\w*(?:error|exception):?\s*)?([45]\d\d)\b(?:\s+[{"<]|\s+status|\s*[:-]|\s+(?-i:[A-Z]))` +
	`|<(?:title|h1)>\s*([45]\d\d)\b`)

// noAnswer are the words of a client that got no answer.
var noAnswer = regexp.MustCompile(`(?i)connection (?:error|refused|reset|aborted|closed)|connect(?:ion)? ?timeout|read ?timeout|timed out|timeout exceeded|deadline exceeded|` +
	`context canceled|no such host|name or service not known|getaddrinfo|econn(?:refused|reset|aborted)|enotfound|etimedout|eai_again|socket hang up|fetch failed|` +
	`remote(?:protocolerror|disconnected)|server disconnected|certificate verify failed|unexpected eof|broken pipe`)

// statusIn is the HTTP status that a text tells of itself: 0 for the words of a client that got no answer, and 400, which
// says nothing more than that the call failed, where it tells none.
func statusIn(text []byte) int {
	head := text[:min(len(text), window)]
	if m := stated.FindSubmatch(head); m != nil {
		for _, digits := range m[1:] {
			if n, err := strconv.Atoi(string(digits)); err == nil {
				return n
			}
		}
	}
	if noAnswer.Match(head) {
		return 0
	}
	return 400
}
