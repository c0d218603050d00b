package facts

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Every dialect of ingest/sdk/go/wire has a row, and no other dialect has one.
func TestFormats(t *testing.T) {
	var r Request
	var a Response
	for _, d := range wire.Dialects {
		if f := formats[d]; f.request == nil || f.messages == nil || f.response == nil {
			t.Errorf("%s has no complete row in formats", d)
			continue
		}
		must.Do(t, ScanRequest(d, []byte(`{}`), &r), d)
		if err := ScanMessages(d, []byte(`[]`), &r); err != nil || !r.Bare {
			t.Errorf("%s: bare %v, %v", d, r.Bare, err)
		}
	}
	must.Equal(t, len(formats), len(wire.Dialects), "formats of all dialects")
	for _, err := range []error{ScanRequest(wire.Other, []byte(`{}`), &r), ScanMessages("", []byte(`[]`), &r), ScanResponse(wire.Other, "", nil, &a)} {
		must.Is(t, err, ErrDialect)
	}
}

// The last event of each dialect completes a stream.
func TestLastEvents(t *testing.T) {
	streams := map[wire.Dialect]string{
		wire.OpenAIResponses: "data: {\"type\":\"response.created\",\"response\":{}}\n\n",
		wire.Anthropic:       "data: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n",
		wire.Cohere:          "data: {\"type\":\"message-start\",\"delta\":{\"message\":{}}}\n\n",
		wire.Interactions:    "data: {\"interaction\":{\"status\":\"in_progress\"},\"event_type\":\"interaction.created\"}\n\n",
	}
	for i := range wire.Descriptors {
		d := &wire.Descriptors[i]
		for _, last := range d.LastEvents {
			var r Response
			stream := streams[d.Dialect]
			if err := ScanResponse(d.Dialect, "text/event-stream", []byte(stream), &r); err != nil || !r.Cut || r.Malformed {
				t.Errorf("%s: %+v, %v for an open stream", d.Dialect, r, err)
			}
			stream += "event: " + last + "\ndata: {\"type\":\"" + last + "\"}\n\n"
			if err := ScanResponse(d.Dialect, "text/event-stream", []byte(stream), &r); err != nil || r.Cut || r.Malformed {
				t.Errorf("%s: %+v, %v after %s", d.Dialect, r, err, last)
			}
		}
	}
}
