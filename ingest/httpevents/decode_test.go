package httpevents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var now = time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)

// decoded decodes a payload.
func decoded(contentType, payload string) (*decoder, error) {
	body, err := httpbody.Read(httptest.NewRequest(http.MethodPost, Path, strings.NewReader(payload)), httpbody.NewBudget(1<<30))
	if err != nil {
		return nil, err
	}
	d := &decoder{payload: body, now: now, client: "10.0.0.7"}
	return d, d.decode(contentType)
}

// A rejected event says what to change.
func TestRejected(t *testing.T) {
	f := func(payload, want string) {
		t.Helper()
		d, err := decoded("application/json", payload)
		if err != nil || len(d.rejected) != 1 || d.rejected[0].Error != want {
			t.Errorf("%s: %+v, %v, want %s", payload, d.rejected, err, want)
		}
	}
	f(`[7]`, "is a number, not an event object")
	f(`{}`, "kind is missing: one of request, response, run, tool, hook")
	f(`{"kind":"Request"}`, `kind is "Request", not one of request, response, run, tool, hook`)
	f(`{"kind":7}`, "kind is a number, not a string")
	f(`{"kind":"request"}`, "exchange is missing; a request requires an id of the call, which its response has too, such as a UUIDv7")
	f(`{"kind":"response","status":200}`, "exchange is missing; a response requires the id of its request")
	f(`{"kind":"tool","tool_call_id":"c","tool_status":"ok"}`, "exchange is missing; a tool requires the id of the call whose response asked for the tool")
	f(`{"kind":"run","run":"r"}`, "run_status is missing; a run requires started, ok, error or cancelled")
	f(`{"kind":"hook"}`, "instance is missing; a hook requires the id of the process")
	f(`{"kind":"response","exchange":"1","status":1000}`, "status is not a whole number up to 999")
	f(`{"kind":"response","exchange":"1","status":"200"}`, "status is a string, not a number")
	f(`{"kind":"response","exchange":"1","status":200,"duration_ms":-1}`, "duration_ms is not a duration in milliseconds up to 1000000000")
	f(`{"kind":"request","exchange":"1","time":"yesterday"}`, `time is "yesterday", not RFC 3339 such as 2026-11-23T10:00:00.123Z`)
	f(`{"kind":"request","exchange":"1","time":"1969-01-01T00:00:00Z"}`, "time is not between 1970 and 2261")
	f(`{"kind":"request","exchange":"1","attrs":{"a":[]}}`, "attrs a: is an array, not a string")
	f(`{"kind":"request","exchange":"1","attrs":"a=b"}`, "attrs is a string, not an object of strings")
	f(`{"kind":"request","exchange":"1","degraded":"yes"}`, "degraded is a string, not a boolean")
	f(`{"kind":"request","exchange":"1","body":7}`, "body is a number, not an object, an array or a string; use body_base64 for other bytes")
	f(`{"kind":"request","exchange":"1","body":{},"body_base64":""}`, "body_base64 is a second body; use either body or body_base64")
	f(`{"kind":"request","exchange":"1","body_base64":"_-"}`, "body_base64 is not base64 (RFC 4648, with padding)")
	f(`{"kind":"request","exchange":"1","content_encoding":"br"}`, `content_encoding "br" is not one of identity, gzip, zstd; send the decoded body`)
}

// What a client omits gets a sensible value.
func TestDefaults(t *testing.T) {
	d, err := decoded("application/json", `[
		{"kind":"request","exchange":"1","url":null},
		{"kind":"response","exchange":"1","error":"timed out with key sk-proj-abcdefghijklmnopqrstuvwx1234567890","instance":"i"},
		{"kind":"request","exchange":"2","body":"{}","content_encoding":"Identity","attrs":{"Tenant":"a","n":1,"b":true}}]`)
	if err != nil || len(d.rejected) > 0 {
		t.Fatal(err, d.rejected)
	}
	want := []*event.Event{
		{Kind: event.Request, Exchange: "1", Time: now, Origin: event.OriginHTTP, Capture: event.CaptureNone, Client: "10.0.0.7"},
		{Kind: event.Response, Exchange: "1", Time: now, Origin: event.OriginHTTP, Capture: event.CaptureNone, Instance: "i", Error: "timed out with key sk-***"},
		{
			Kind: event.Request, Exchange: "2", Time: now, Origin: event.OriginHTTP, Capture: event.CaptureFull, Client: "10.0.0.7", Body: []byte("{}"),
			Attrs: map[string]string{"n": "1", "b": "true"},
		},
	}
	must.Agree(t, cmp.Diff(want, d.events))
	must.Agree(t, cmp.Diff([]string{`event 2: attrs: ignored key "Tenant": it does not match [a-z0-9._-]{1,64}`}, d.warnings))
}

// Bodies of error responses are masked in every mode, also compressed ones, and truncated unless bodies are captured.
func TestMask(t *testing.T) {
	const key = "bad key sk-proj-abcdefghijklmnopqrstuvwx1234567890"
	text := key + strings.Repeat(" word", 2000)
	masked := "bad key sk-***" + strings.Repeat(" word", 2000)
	f := func(capture, encoding string, body []byte, want string, wantCapture string) {
		t.Helper()
		e := event.Event{Kind: event.Response, Exchange: "1", Status: 400, Capture: capture, ContentEncoding: encoding, Body: body}
		d, err := decoded("application/json", string(e.AppendJSON(nil)))
		if err != nil || len(d.events) != 1 {
			t.Fatal(err, d.rejected)
		}
		if got := d.events[0]; string(got.Body) != want || got.Capture != wantCapture || got.ContentEncoding != "" {
			t.Errorf("%s %s: %s %.100s, %d bytes, want %d", capture, encoding, got.Capture, got.Body, len(got.Body), len(want))
		}
	}
	f("full", "", []byte(text), masked, "full")
	f("full", "gzip", zipped([]byte(text)), masked, "full")
	f("shape", "", []byte(key), "bad key sk-***", "shape")
	f("none", "", []byte("a"+text), "abad key sk-***"+strings.Repeat(" word", 809), "none") // the whole words of the first 4 KiB
	f("full", "zstd", []byte(text), "", "none")
}

// Every accepted event is one that readers decode to the same event. Bodies are those that encoding/json sees.
func FuzzDecode(f *testing.F) {
	f.Add("application/x-ndjson", string(encode(full())))
	f.Add("application/json", `[{"kind":"request","exchange":"1","body":{"a":[1]},"attrs":{"a":"b"}},{"kind":"hook","instance":"i"}]`)
	f.Add("application/json", `{"kind":"response","exchange":"\u0031","status":400,"body":"a\ud83d\ude00\u0000","duration_ms":1e3}`)
	f.Add("application/jsonl", "{\"kind\":\"tool\",\"exchange\":\"1\",\"tool_call_id\":\"c\",\"tool_status\":\"ok\",\"body_base64\":\"AAAA\"}\n\n{")
	f.Fuzz(func(t *testing.T, contentType, payload string) {
		d, err := decoded(contentType, payload)
		if refused, ok := errors.AsType[*httpbody.Error](err); err != nil && (!ok || refused.Message == "") {
			t.Fatalf("error %v", err)
		}
		if err != nil {
			return
		}
		if len(d.events)+len(d.rejected) != d.count || len(d.indexes) != len(d.events) {
			t.Fatalf("%d events, %d and %d rejected", d.count, len(d.events), len(d.rejected))
		}
		for i, e := range d.events {
			got, err := event.Decode(e.Subject(), e.Encode(), e.Body)
			must.Do(t, err, e)
			again, err := event.Decode(got.Subject(), got.Encode(), got.Body)
			if err != nil || !reflect.DeepEqual(got, again) {
				t.Fatalf("%+v is not stable: %+v, %v", got, again, err)
			}
			if strings.HasSuffix(contentType, "/json") {
				sameBody(t, payload, d.indexes[i], e)
			}
		}
	})
}

// sameBody compares the body of an event with the one that encoding/json decodes.
func sameBody(t *testing.T, payload string, index int, e *event.Event) {
	if !utf8.ValidString(payload) || e.Kind == event.Response && e.Status >= 400 || e.Kind > event.Response {
		return
	}
	var all []map[string]json.RawMessage
	if p := strings.TrimSpace(strings.TrimPrefix(payload, "\xef\xbb\xbf")); !strings.HasPrefix(p, "[") {
		payload = "[" + p + "]"
	}
	must.Do(t, json.Unmarshal([]byte(strings.TrimPrefix(payload, "\xef\xbb\xbf")), &all), "accepted")
	var want []byte
	var text string
	switch raw, encoded := all[index]["body"], all[index]["body_base64"]; {
	case raw != nil && (raw[0] == '{' || raw[0] == '['):
		want = raw
	case raw != nil && json.Unmarshal(raw, &text) == nil && string(raw) != "null":
		want = []byte(text)
	case encoded != nil && json.Unmarshal(encoded, &text) == nil:
		var err error
		want, err = base64.StdEncoding.DecodeString(text)
		must.Do(t, err, "accepted")
	}
	if !bytes.Equal(want, e.Body) {
		t.Fatalf("body %q, want %q", e.Body, want)
	}
}
