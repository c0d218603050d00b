package content

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// checkRepeats checks that the repetitions of an answer are what reading the events finds, and that not examining them masks the
// same. It returns their number.
func checkRepeats(t *testing.T, r *redact.Redactor, body []byte) int {
	t.Helper()
	var s streamed
	s.lines(body)
	for pair := range slices.Chunk(s.repeats, 2) {
		head, tail := pair[0], pair[1]
		var read streamed
		end := read.value(body, head.Start, 0)
		if end != tail.End-1 || len(read.fragments) != 1 || read.fragments[0].start != head.End || read.fragments[0].end != tail.Start ||
			!slices.Contains(s.fragments, read.fragments[0]) {
			t.Fatalf("%q: the event at %d ends at %d and has the fragments %v; repeated: %v", body, head.Start, end, read.fragments, pair)
		}
	}
	if got, want := r.AppendRepeated(nil, body, s.repeats), r.Append(nil, body); !bytes.Equal(got, want) {
		t.Fatalf("%q\nbecomes\n%q\nrather than\n%q", body, got, want)
	}
	return len(s.repeats)
}

// beside are texts that are secrets, or parts of them that the next text may complete.
var beside = []string{
	"sk-proj-aB3cD4eF5gH6iJ7kL8mN9oPqR0sTuV1wXyZ2aB3cD4eF5", "jane@example.com", "jane", "@example.com", "hunter2hunter2", "password:", "password=", "--password ",
	"cookie:", "cookie: a=b;", "Authorization: Bearer ", "Bearer ", "aB3cD4eF5gH6iJ7kL8mN9oPqR0sTuV1w", `\"api_key\":`, `\"api_key\": \"`, `api_key`, `\u0022`, `\\`, "%3D",
	"-----BEGIN PRIVATE KEY", "-----BEGIN PRIVATE KEY-----", "-----MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ", "4111 1111 1111 1111", "4111111111111111",
	"4111 1111 ", "1111 1111", "+1 415-555-2671", "+", "(415) ", "555-2671", "https://user:", "secret@host", "xoxb-", "eyJhbGciOiJIUzI1NiJ9.", "123456:", "'", "`", "=",
}

func FuzzRepeats(f *testing.F) {
	r := must.Get(redact.NewRedactor(redact.Config{Kinds: redact.Kinds}))(f)
	// Whole blocks are skipped, so only of long events.
	const long = `"object":"chat.completion.chunk","created":1741570283,"model":"gpt-5","system_fingerprint":null`
	for _, a := range beside {
		for _, b := range beside {
			f.Add(`data: {`+long+`,"id":"`+a+`",`, `}`, "x|"+b+"|word")
			f.Add(`{`, `,`+long+`,"user":"`+a+`"}`, b+"|x|"+b)
		}
		f.Add("event: "+a+"\ndata: {"+long+",", `,"user":"x" }`, "x|"+a)
		f.Add(`data: {"a":{"`+a+`":{`, `}},`+long+`,"b":[1,true,"`+a+`"] }`, a+"|x")
	}
	// The closing quote of a text may be the opening quote of a value, which ends with the line.
	f.Add(`{`, `,`+long+`,"user":"cookie:" }`, "x|y")
	f.Fuzz(func(t *testing.T, before, after, fragments string) {
		var body []byte
		for part := range strings.SplitSeq(fragments, "|") {
			body = append(body, before+`"content":"`+part+`"`+after+"\n"...)
		}
		checkRepeats(t, r, body)
		checkRepeats(t, r, body[:len(body)-1])
		checkRepeats(t, r, bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n")))
		checkRepeats(t, r, bytes.ReplaceAll(body, []byte("}\n"), []byte("}")))
		checkRepeats(t, r, bytes.Replace(body, []byte("}\n"), []byte("}\n\n"), 1))
		checkRepeats(t, r, append(body[:len(body)-1], " a=b"...))
	})
}

// Most events of recorded answers are repeated. Secrets, and halves of them, are put anywhere into one event or into all.
func TestRepeatsOfRecordedAnswers(t *testing.T) {
	r := must.Get(redact.NewRedactor(redact.Config{Kinds: redact.Kinds}))(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	answers, repeats := 0, 0
	recordedtest.Lines(t, recordedtest.Exchanges, func(_ int, line []byte) {
		var exchange struct{ Response json.RawMessage }
		var body []byte
		must.Do(t, json.Unmarshal(line, &exchange))
		var text string
		if json.Unmarshal(exchange.Response, &text) == nil {
			body = []byte(text)
		}
		if !bytes.Contains(body, []byte("data:")) {
			return
		}
		answers++
		repeats += checkRepeats(t, r, body)
		for range slowtest.Tenth(t, 20) {
			at := rnd.IntN(len(body))
			place, secret := body[at:min(len(body), at+1+rnd.IntN(20))], beside[rnd.IntN(len(beside))]
			checkRepeats(t, r, bytes.Join([][]byte{body[:at], body[at:]}, []byte(secret)))
			checkRepeats(t, r, bytes.ReplaceAll(body, place, []byte(secret)))
			checkRepeats(t, r, bytes.Replace(bytes.ReplaceAll(body, place, []byte(secret+string(place))), []byte("data: "), []byte(beside[rnd.IntN(len(beside))]), 2))
		}
	})
	if answers == 0 || repeats < 10*answers {
		t.Errorf("%d answers have %d repetitions", answers, repeats)
	}
	t.Logf("%d answers, %d repetitions", answers, repeats)
}
