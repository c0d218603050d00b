package contract

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A message is one published event with joined parts, without the values that differ between runs.
type message struct {
	Subject string // without its shard
	Header  map[string]string
	Body    []byte // decoded

	ev    *event.Event
	class string // of the error
}

// Placeholders for header values that were checked and differ between runs.
const (
	anID       = "(id)"
	aTime      = "(time)"
	aDuration  = "(duration)"
	anInstance = "(instance)"
	anSDK      = "(sdk)"
	aCode      = "(code)"
	theHost    = "(provider)"
)

var (
	uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	// The function of the agent that calls the client, or enters the context of a call whose stack the client loses.
	isCode = regexp.MustCompile(`^(contract/hook_test\.go:\d+ raw|contract/hook_test\.go:\d+ goHook\.(openai|goOpenAI|anthropic)|python/(raw|sdks|runner)\.py:\d+ \S+|node/(raw|sdks|runner)\.cjs:\d+ \S+)$`)
	isSDK  = regexp.MustCompile(`^(go|python|typescript)/\d+\.\d+\.\d+$`)
)

// readEvents converts stored messages, in their order. began is the start of the run, host that of the provider, and run
// the suffix of the run's name.
func readEvents(t testing.TB, raw []*jetstream.RawStreamMsg, began time.Time, host, run string) []*message {
	t.Helper()
	var ms []*message
	r := reading{t: t, began: began, host: host, run: run, ids: make(map[string]string)}
	for i := 0; i < len(raw); {
		n := r.parts(raw[i:])
		ms = append(ms, r.message(raw[i:i+n]))
		i += n
	}
	r.numbers(ms)
	return ms
}

// A reading is the state of readEvents.
type reading struct {
	t        testing.TB
	began    time.Time
	host     string
	run      string            // suffix of the name of a run
	ids      map[string]string // of exchanges -> x1, x2 …
	instance string
}

// parts returns the number of messages of the next event.
func (r *reading) parts(raw []*jetstream.RawStreamMsg) int {
	part := raw[0].Header.Get(event.HeaderPart)
	if part == "" {
		return 1
	}
	_, of, _ := strings.Cut(part, "/")
	n, err := strconv.Atoi(of)
	if err != nil || n < 2 || n > len(raw) {
		r.t.Fatalf("part %q of %d messages", part, len(raw))
	}
	for i, m := range raw[:n] {
		if got, want := m.Header.Get(event.HeaderPart), fmt.Sprintf("%d/%d", i+1, n); got != want {
			r.t.Fatalf("part %q, want %q", got, want)
		}
		a, b := maps.Clone(raw[0].Header), maps.Clone(m.Header)
		for k := range a {
			if k == event.HeaderPart || strings.HasPrefix(k, "Nats-") {
				delete(a, k)
				delete(b, k)
			}
		}
		if !maps.EqualFunc(a, b, slices.Equal) {
			r.t.Errorf("the parts of an event have different headers: %v, %v", a, b)
		}
	}
	return n
}

// message joins the parts of one event.
func (r *reading) message(parts []*jetstream.RawStreamMsg) *message {
	t := r.t
	m := &message{Header: make(map[string]string)}
	for i, p := range parts {
		ev, err := event.Decode(p.Subject, event.Header(p.Header), p.Data)
		if err != nil {
			t.Fatalf("message %v: %v", p.Header, err)
		}
		if i == 0 {
			m.ev = ev
		}
		must.Equal(t, p.Header.Get(event.HeaderMsgID), ev.MessageID(), "%s", event.HeaderMsgID)
		must.Equal(t, p.Subject, ev.Subject(), "subject")
		m.Body = append(m.Body, p.Data...)
	}
	if len(parts) > 1 && m.ev.BodyBytes != len(m.Body) {
		t.Errorf("%s %d, want %d", event.HeaderBodyBytes, m.ev.BodyBytes, len(m.Body))
	}
	m.Subject = parts[0].Subject[:strings.LastIndexByte(parts[0].Subject, '.')]
	for k, v := range parts[0].Header {
		if strings.HasPrefix(k, "Nats-") && k != event.HeaderMsgID {
			continue // set by the server
		}
		if len(v) != 1 {
			t.Errorf("%s has %d values", k, len(v))
		}
		m.Header[k] = r.normal(k, v[0], m.ev)
		if strings.Contains(v[0], "topsecret") || strings.Contains(v[0], "sk-") {
			t.Errorf("a secret is published: %s: %s", k, v[0])
		}
	}
	delete(m.Header, event.HeaderMsgID) // checked above
	if e := m.ev.ContentEncoding; e != "" {
		delete(m.Header, event.HeaderContentEncoding)
		if plain, err := decode(e, m.Body); err == nil || len(plain) > 0 {
			m.Body = plain
		}
	}
	m.class = errorClass(m.ev.Error, m.ev.Cancelled())
	if m.class != "none" && m.class != "unread" {
		m.Header[event.HeaderError] = "(" + m.class + ")"
	}
	return m
}

// normal checks a value that differs between runs and returns its placeholder.
func (r *reading) normal(key, value string, ev *event.Event) string {
	t := r.t
	switch key {
	case event.HeaderExchange:
		if !uuid7.MatchString(value) {
			t.Errorf("%s %q is not a UUIDv7", key, value)
		}
		if r.ids[value] == "" {
			r.ids[value] = fmt.Sprint("x", len(r.ids)+1)
		}
		return r.ids[value]
	case event.HeaderTime:
		if ev.Time.Before(r.began.Add(-time.Millisecond)) || ev.Time.After(time.Now().Add(time.Millisecond)) || !strings.HasSuffix(value, "Z") {
			t.Errorf("%s %q is not within the run, which began at %v", key, value, r.began)
		}
		return aTime
	case event.HeaderDuration, event.HeaderFirstByte:
		if ev.Duration < 0 || ev.FirstByte < 0 || ev.FirstByte > ev.Duration || ev.Duration > time.Since(r.began) {
			t.Errorf("duration %v, first byte %v of a run of %v", ev.Duration, ev.FirstByte, time.Since(r.began))
		}
		return aDuration
	case event.HeaderInstance:
		if !uuid4.MatchString(value) || r.instance != "" && value != r.instance {
			t.Errorf("%s %q, previously %q", key, value, r.instance)
		}
		r.instance = value
		return anInstance
	case event.HeaderSDK:
		if !isSDK.MatchString(value) {
			t.Errorf("%s %q", key, value)
		}
		return anSDK
	case event.HeaderCode:
		if !isCode.MatchString(value) {
			t.Errorf("%s %q is not in the agent", key, value)
		}
		return aCode
	case event.HeaderRun:
		return strings.TrimSuffix(value, r.run)
	case event.HeaderURL:
		return strings.Replace(value, r.host, theHost, 1)
	}
	return value
}

// numbers checks that sequence numbers have gaps only where exchanges were dropped, and that requests precede their
// responses.
func (r *reading) numbers(ms []*message) {
	if len(ms) == 0 {
		return
	}
	var last uint64
	half := make(map[string]int)
	for _, m := range ms {
		if m.ev.Seq <= last || m.ev.Seq != last+1 && m.ev.Dropped == 0 {
			r.t.Errorf("%s %d after %d, %d dropped", event.HeaderSeq, m.ev.Seq, last, m.ev.Dropped)
		}
		last = m.ev.Seq
		switch m.ev.Kind {
		case event.Request:
			half[m.ev.Exchange]++
		case event.Response:
			must.Equal(r.t, half[m.ev.Exchange], 1, "seq %d: a response before its request, or a second one", m.ev.Seq)
			half[m.ev.Exchange]++
		default: // no half of an exchange
		}
	}
	for _, n := range half {
		must.Equal(r.t, n, 2, "only half of an exchange is published")
	}
}

// byConversation sorts the events of concurrent calls, whose order is random, and removes their sequence numbers.
func byConversation(ms []*message) {
	names := make(map[string]string)
	slices.SortStableFunc(ms, func(a, b *message) int {
		return strings.Compare(a.ev.Labels.Conversation, b.ev.Labels.Conversation)
	})
	for _, m := range ms {
		x := m.Header[event.HeaderExchange]
		if names[x] == "" {
			names[x] = fmt.Sprint("x", len(names)+1)
		}
		m.Header[event.HeaderExchange] = names[x]
		delete(m.Header, event.HeaderSeq)
	}
}
