package event

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// framesOf returns the messages of events and the events that they contain.
func framesOf(t testing.TB, events []*Event, limit int) (messages []Message, decoded []*Event) {
	t.Helper()
	next := 0
	for m, at := range Pack(events, limit, true) {
		messages = append(messages, m)
		if at[0] != next && at[0] != next-1 {
			t.Fatalf("events %d to %d follow event %d", at[0], at[0]+at[1], next)
		}
		next = at[0] + at[1]
		if !IsFrame(m.Subject) {
			decoded = append(decoded, must.Get(Decode(m.Subject, m.Header, m.Data))(t))
			continue
		}
		framed := must.Get(DecodeFrame(m.Subject, m.Header, m.Data))(t)
		must.Equal(t, len(framed), at[1], "events of a frame")
		for _, f := range framed {
			must.Do(t, f.Err)
			decoded = append(decoded, f.Event)
		}
	}
	must.Equal(t, next, len(events), "packed events")
	return messages, decoded
}

// sameShard returns n events of all kinds with one service and conversation.
func sameShard(n int) (events []*Event) {
	for i := range n {
		e := full()[Kind(1+i%5)]
		e.Labels.Service, e.Labels.Conversation, e.Instance, e.Exchange, e.Seq = "checkout", "c", "i", fmt.Sprintf("x%d", i/2), uint64(i+1)
		e.Part, e.Parts, e.BodyBytes, e.Body = 1, 1, i*10, bytes.Repeat([]byte{byte(i)}, i*10)
		if i%3 == 0 {
			e.Attrs, e.Labels.Stage = map[string]string{"k": fmt.Sprint(i)}, ""
		}
		e.Capture = CaptureFull
		events = append(events, e)
	}
	return events
}

// Events of frames decode as those of messages of their own do.
func TestFrames(t *testing.T) {
	events := sameShard(100)
	for _, limit := range []int{1, 1000, 3000, PartBytes} {
		_, got := framesOf(t, events, limit)
		var want []*Event
		for _, e := range events {
			for m := range e.Messages(limit) {
				want = append(want, must.Get(Decode(m.Subject(), m.Encode(), m.Body))(t))
			}
		}
		if limit < 1000 {
			continue // parts
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("limit %d: events of frames differ", limit)
		}
	}
	messages, _ := framesOf(t, events, PartBytes)
	must.Equal(t, len(messages), 4, "frames")
	must.Equal(t, messages[0].Subject, "llmtap.v1.frame.checkout."+events[0].Subject()[len(events[0].Subject())-2:], "subject")
	must.Equal(t, messages[0].Header[HeaderMsgID][0], "x0.q.1.32.x15.s.1", "message id")
	messages, _ = framesOf(t, events[:1], PartBytes)
	must.Equal(t, messages[0].Subject, events[0].Subject(), "a single event")
}

// A frame contains the headers that differ from the event of the same kind before, in the order of names.
func TestFrameFormat(t *testing.T) {
	at := full()[Request].Time
	e := func(kind Kind, exchange, conversation, body string) *Event {
		return &Event{Kind: kind, Exchange: exchange, Time: at, Labels: Labels{Service: "s", Stage: conversation}, Body: []byte(body)}
	}
	events := []*Event{e(Request, "x", "a", "{}"), e(Response, "x", "a", "\n"), e(Request, "y", "", ""), e(Request, "y", "", "")}
	m, n := frameOf(events, PartBytes)
	must.Equal(t, n, 4, "events")
	when := at.UTC().Format("2006-01-02T15:04:05.999999999Z07:00")
	first := "Llmtap-Exchange:x\nLlmtap-Service:s\nLlmtap-Stage:a\nLlmtap-Time:" + when + "\n"
	second := "Llmtap-Duration-Ms:0\nLlmtap-Exchange:x\nLlmtap-First-Byte-Ms:0\nLlmtap-Service:s\nLlmtap-Stage:a\nLlmtap-Status:0\nLlmtap-Time:" + when + "\n"
	third := "Llmtap-Exchange:y\nLlmtap-Stage:\n"
	must.Equal(t, string(m.Data), fmt.Sprintf("request %d 2\n%s{}response %d 1\n%s\nrequest %d 0\n%srequest 0 0\n", len(first), first, len(second), second, len(third), third), "payload")
	must.Equal(t, m.Header[HeaderFrame][0], "1", "version")
}

// One invalid event does not affect the others; a header that stays invalid does.
func TestFrameWithMalformedEvent(t *testing.T) {
	lines := "Llmtap-Exchange:x\nLlmtap-Time:2026-11-21T03:04:05Z\n"
	entry := func(kind, lines, body string) string {
		return fmt.Sprintf("%s %d %d\n%s%s", kind, len(lines), len(body), lines, body)
	}
	f := func(data string, want string, broken bool) {
		t.Helper()
		subject, h := "llmtap.v1.frame.unknown.00", Header{HeaderFrame: {"1"}}
		got, err := DecodeFrame(subject, h, []byte(data))
		var list []string
		for _, f := range got {
			if f.Err != nil {
				must.Is(t, f.Err, ErrMalformed, "event")
				list = append(list, "-")
				continue
			}
			list = append(list, f.Event.Exchange+string(f.Event.Body))
		}
		must.Equal(t, strings.Join(list, " "), want, "events of %q", data)
		if (err != nil) != broken || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", data, err)
		}
		sameAsSplit(t, subject, h, []byte(data))
	}
	f(entry("request", lines, "1")+entry("request", "", "2"), "x1 x2", false)
	f(entry("request", lines, "1")+entry("request", "Llmtap-Time:no\n", "2")+entry("request", "Llmtap-Seq:1\n", "3")+entry("request", lines, "4"), "x1 - - x4", false)
	f(entry("request", lines, "1")+entry("request", "Llmtap-Retry:no\n", "2")+entry("request", "Llmtap-Retry:\n", "3"), "x1 - x3", false)
	f(entry("request", "", "1")+entry("request", lines, "2"), "- x2", false)
	f(entry("request", lines, "1")+entry("other", lines, "2")+entry("request", "", "3"), "x1 - x3", false)
	f(entry("request", lines+"Llmtap-Service:b\n", "1")+entry("request", "Llmtap-Service:\n", "2"), "- x2", false)
	f("", "", true)
	f(entry("request", lines, "1")+"request 1 1", "x1", true)
	f(entry("request", lines, "1")+entry("request", "", "2")[:len("request 0 1\n")], "x1", true)
	f(entry("request", lines, "1")+"request 99 0\n"+lines, "x1", true)
	f("request 4294967296 0\n", "", true)
	f(strings.Repeat(entry("request", lines, "1"), MaxFrameEvents+1), strings.TrimSpace(strings.Repeat("x1 ", MaxFrameEvents)), true)
	for _, h := range []Header{nil, {HeaderFrame: {"2"}}} {
		_, err := DecodeFrame("llmtap.v1.frame.unknown.00", h, []byte(entry("request", lines, "1")))
		must.Is(t, err, ErrMalformed, "frame")
	}
}

// sameAsSplit fails unless the events of a frame are those of its messages.
func sameAsSplit(t *testing.T, subject string, h Header, data []byte) {
	t.Helper()
	framed, err1 := DecodeFrame(subject, h, data)
	messages, err2 := SplitFrame(subject, h, data)
	if len(framed) != len(messages) || fmt.Sprint(err1) != fmt.Sprint(err2) {
		t.Fatalf("%d events, %v; %d messages, %v", len(framed), err1, len(messages), err2)
	}
	for i, m := range messages {
		e, err := Decode(m.Subject, m.Header, m.Data)
		if !reflect.DeepEqual(e, framed[i].Event) || (err == nil) != (framed[i].Err == nil) {
			t.Fatalf("event %d of %q: %+v, %v; alone %+v, %v", i, data, framed[i].Event, framed[i].Err, e, err)
		}
	}
	messages = slices.DeleteFunc(messages, func(m Message) bool { _, _, _, err := ParseSubject(m.Subject); return err != nil })
	if len(messages) == 0 {
		return // there is no frame without events
	}
	if again := must.Get(SplitFrame(subject, h, JoinFrame(messages)))(t); !reflect.DeepEqual(again, messages) {
		t.Fatalf("split and joined: %q became %q", messages, again)
	}
}

// A frame never panics, and its events are those of its messages.
func FuzzDecodeFrame(f *testing.F) {
	for m := range Pack(sameShard(20), PartBytes, true) {
		f.Add(m.Subject, m.Data)
	}
	f.Add("llmtap.v1.frame.unknown.00", []byte("request 39 1\nLlmtap-Exchange:x\nLlmtap-Time:2026-11-21T03:04:05Z\n1request 13 0\nLlmtap-Seq:a\ntool 0 0\n"))
	f.Add("llmtap.v1.frame.unknown.00", []byte("request 39 1\nLlmtap-Exchange:x\nLlmtap-Time:2026-11-21T03:04:05Z\nLlmtap-Attr-a:1\nresponse 0 0\nrequest 16 0\nLlmtap-Attr-a:\n"))
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		sameAsSplit(t, subject, Header{HeaderFrame: {"1"}}, data)
	})
}

// Decoded events do not share what changes later.
func TestFrameEventsAreIndependent(t *testing.T) {
	events := sameShard(30)
	m, _ := frameOf(events, PartBytes)
	for i, f := range must.Get(DecodeFrame(m.Subject, m.Header, m.Data))(t) {
		want := map[string]string{}
		for k, v := range events[i].Attrs {
			if v != "" && ValidAttrKey(k) {
				want[k] = v
			}
		}
		if !maps.Equal(f.Event.Attrs, want) {
			t.Errorf("event %d: attributes %v, want %v", i, f.Event.Attrs, want)
		}
	}
}

func BenchmarkFrame(b *testing.B) {
	var events []*Event
	for i := range 16 {
		e := benchEvent()
		e.Exchange, e.Seq, e.Body = fmt.Sprintf("01997b6e-0000-7000-8000-%012d", i), uint64(i), make([]byte, 3000)
		events = append(events, e)
	}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(16 * 3000)
		b.ReportAllocs()
		for b.Loop() {
			frameOf(events, PartBytes)
		}
	})
	b.Run("read", func(b *testing.B) {
		m, _ := frameOf(events, PartBytes)
		b.SetBytes(16 * 3000)
		b.ReportAllocs()
		for b.Loop() {
			must.Get(DecodeFrame(m.Subject, m.Header, m.Data))(b)
		}
	})
	b.Run("write singles", func(b *testing.B) {
		b.SetBytes(16 * 3000)
		b.ReportAllocs()
		for b.Loop() {
			for range Pack(events, PartBytes, false) {
			}
		}
	})
}
