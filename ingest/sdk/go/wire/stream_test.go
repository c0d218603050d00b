package wire

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestStreamEnd(t *testing.T) {
	// f feeds s in one chunk and byte by byte; want is the length of the stream, -1 if it has not ended.
	f := func(contentType, s string, want int) {
		t.Helper()
		must.Equal(t, NewStreamEnd(contentType).Feed([]byte(s)), want, "%q", s)
		got, parts := -1, NewStreamEnd(contentType)
		for i := range s {
			if n := parts.Feed([]byte(s[i : i+1])); n >= 0 {
				got = i + n
				break
			}
		}
		must.Equal(t, got, want, "%q byte by byte", s)
	}
	const sse = "text/event-stream; charset=utf-8"
	f(sse, "data: {\"a\":1}\n\ndata: [DONE]\n\n", 29)
	f(sse, "data: {\"a\":1}\r\n\r\ndata:[DONE]\r\n\r\nrest", 32)
	f(sse, "data: [DONE]\n", -1)
	f(sse, "data: {\"text\":\"data: [DONE]\"}\n\n", -1)
	f(sse, "data: [DONE] not quite\n\n", -1)
	f(sse, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", 51)
	f(sse, "data: {\"type\":\"response.completed\",\"response\":{}}\n\n", 51)
	f(sse, "event: response.completed\ndata: {}\n\nmore", 36)
	f(sse, "event: ping\ndata: {}\n\n: comment\n\n", -1)
	f(sse, "\n\n", -1)

	const lines = "Application/X-NDJSON"
	f(lines, "{\"done\":false}\n{\"message\":{\"done\":true}}\n", -1)
	f(lines, "{\"done\":false}\n{\"model\":\"m\",\"done\":true}\nrest", 41)

	for _, contentType := range []string{"", "application/json", "application/vnd.amazon.eventstream"} {
		if NewStreamEnd(contentType) != nil {
			t.Errorf("%q has a last event", contentType)
		}
	}
}

// Every last event is recognised by its event line and by its data, in the bytes that an sseEnd keeps of a line.
func TestLastEvents(t *testing.T) {
	for i := range Descriptors {
		d := &Descriptors[i]
		for _, e := range d.LastEvents {
			for _, stream := range []string{"event: " + e + "\r\ndata: {}\n\n", "data: {\"type\":\"" + e + "\",\"more\":1}\n\n"} {
				must.Equal(t, NewStreamEnd("text/event-stream").Feed([]byte(stream)), len(stream), "%s: no end of %q", d.Dialect, stream)
			}
		}
	}
}
