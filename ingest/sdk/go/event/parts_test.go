package event

import (
	"bytes"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMessages(t *testing.T) {
	f := func(size int, want ...int) {
		t.Helper()
		whole := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		e := &Event{Kind: Request, Exchange: "x", Body: whole}
		var joined []byte
		i := 0
		for m := range e.Messages(PartBytes) {
			if i >= len(want) || len(m.Body) != want[i] || m.Part != i+1 || m.Parts != len(want) || m.BodyBytes != size || m.Exchange != "x" {
				t.Errorf("%d bytes: message %d is part %d of %d, %d of %d bytes", size, i, m.Part, m.Parts, len(m.Body), m.BodyBytes)
			}
			joined = append(joined, m.Body...)
			i++
		}
		if i != len(want) || !bytes.Equal(joined, whole) {
			t.Errorf("%d bytes: %d messages, %d bytes", size, i, len(joined))
		}
	}
	f(0, 0)
	f(PartBytes-1, PartBytes-1)
	f(PartBytes, PartBytes)
	f(PartBytes+1, PartBytes, 1)
	f(3*PartBytes, PartBytes, PartBytes, PartBytes)

	for m := range (&Event{Body: make([]byte, 2*PartBytes)}).Messages(PartBytes) {
		if m.Part == 2 {
			t.Error("second part yielded after break")
		}
		break
	}
}

// URLs are published without their query, which may contain a key, and stubs with the length of the body.
func TestQueryAndStub(t *testing.T) {
	e := &Event{
		Kind: Request, Exchange: "x", Time: sent, URL: "https://api/v1/chat/completions?key=secret#f", Capture: CaptureCut,
		Body: []byte("stub"), BodyBytes: 20 << 20, Labels: Labels{Service: "s"},
	}
	for m := range e.Messages(PartBytes) {
		h := m.Encode()
		must.Equal(t, h[HeaderURL][0], "https://api/v1/chat/completions", "URL without a query")
		h[HeaderURL] = []string{e.URL} // a hook that sends the query
		if got := must.Get(Decode(m.Subject(), h, m.Body))(t); got.URL != "https://api/v1/chat/completions" || got.BodyBytes != 20<<20 || got.Parts != 1 {
			t.Error(got)
		}
	}
	e.Capture = CaptureFull // only a stub may be shorter than its BodyBytes
	for m := range e.Messages(PartBytes) {
		must.Equal(t, must.Get(Decode(m.Subject(), m.Encode(), m.Body))(t).BodyBytes, 4, "bytes of the body")
	}
}

func TestCancelled(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		must.Equal(t, (&Event{Kind: Response, Error: text}).Cancelled(), want, "%q", text)
	}
	f("", false)
	f(ErrorCancelled, true)
	f("context canceled", true)
	f("dial tcp: operation was canceled", true)
	f("CancelledError()", true)
	f("AbortError: This operation was aborted", true)
	f("context deadline exceeded", false)
	f("net/http: request canceled (Client.Timeout exceeded while awaiting headers)", false)
	f("stream error: stream ID 1; CANCEL; received from peer", false)
	f("unexpected EOF", false)
	if (&Event{Kind: Request, Error: "context canceled"}).Cancelled() {
		t.Error("a request is reported as cancelled")
	}
}
