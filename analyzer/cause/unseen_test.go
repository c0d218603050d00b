package cause

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A sentence is an error text of the test set, without an envelope.
type sentence struct {
	Half, Provider, Cause, Text, Source string
	Status                              int
}

func sentences(t testing.TB, path string) []sentence {
	t.Helper()
	file := must.Get(os.Open(path))(t)
	defer file.Close()
	var all []sentence
	for s := bufio.NewScanner(file); s.Scan(); {
		var one sentence
		must.Do(t, json.Unmarshal(s.Bytes(), &one), "decode", s.Text())
		all = append(all, one)
	}
	return all
}

// quote returns s as JSON.
func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// wrap puts a sentence into the n-th envelope.
func wrap(n int, s string, status int) string {
	q := quote
	body := fmt.Sprintf(`{"error":{"message":%s,"type":"invalid_request_error","param":null,"code":null}}`, q(s))
	switch n % 8 {
	case 0:
		return s
	case 1:
		return body
	case 2: // the repr of the OpenAI client
		return fmt.Sprintf(`openai.BadRequestError: Error code: %d - {'error': {'message': %s, 'type': 'invalid_request_error', 'param': None}}`, status, strconv.Quote(s))
	case 3: // a gateway's JSON in JSON
		return fmt.Sprintf(`{"error":{"message":"Provider returned error","code":%d,"metadata":{"raw":%s,"provider_name":"X"}},"user_id":"u"}`, status, q(body))
	case 4:
		return fmt.Sprintf("API Error: %d %s", status, body)
	case 5: // a terminal
		words := strings.Fields(s)
		for i := 4; i < len(words); i += 5 {
			words[i] = "      │\n│   " + words[i]
		}
		return "✕ [API Error: " + strings.Join(words, " ") + "]"
	case 6: // a stream
		return "event: error\ndata: " + body + "\n\n"
	}
	return fmt.Sprintf("[{\n  \"error\": {\n    \"code\": %d,\n    \"message\": %s,\n    \"status\": \"INVALID_ARGUMENT\"\n  }\n}\n]", status, q(s))
}

// firstSeen is the share of each part, in percent, that was exact and in the right class at its first run. Only these
// numbers predict the accuracy on the next text: the tables have learned from each part since.
var firstSeen = map[string][2]float64{"learn": {31.9, 36.1}, "held": {90.8, 91.5}, "fresh": {76.0, 78.7}, "fresh2": {69.4, 75.5}, "fresh3": {79.4, 88.2}, "fresh4": {64.3, 71.9}, "fresh5": {76.4, 85.5}, "fresh6": {74.5, 80.9}, "fresh7": {61.0, 72.4}, "fresh8": {68.3, 79.4}, "fresh9": {64.6, 72.3}, "third": {85.8, 89.4}, "made": {69.8, 76.7}, "made2": {64.9, 66.7}, "made3": {61.7, 70.2}, "made4": {79.3, 81.7}, "made5": {72.4, 75.4}, "made6": {67.1, 67.1}}

// TestUnseen measures Classify on wordings that were collected and labelled before their first run. Learn and held are
// two halves of one collection: the lexicon was built with the first and measured with the second; before the lexicon
// they had 31.9 and 31.4 % exact. Fresh, fresh2 and fresh3 were collected later, each after the tables had learned from the
// parts before: fresh2 for odd wordings, fresh3 as found, without known wordings. Made to made5 are invented wordings,
// unlike the known ones; made4 rephrases 500 texts that the tables had learned, and made5 and
// made6 say causes as clients and gateways do in prose. Fresh4 to fresh6 come from the validators of
// servers, from issues and from error references; third is a random third of the texts collected for fresh4 and fresh5, set
// aside and not learned from, but for one text whose cause differed between envelopes, so its floor is its first figure.
// Fresh7 to fresh9 come from servers and gateways most of which had no text in the set; each was measured after the tables had
// learned from the one before. Fresh9 contains terse checks of one server of the Responses API and of nine gateways. A source that starts with "recalled" is a wording known from documentation or use, without a thread
// to cite.
func TestUnseen(t *testing.T) {
	type count struct{ exact, class, all int }
	counts := map[string]*count{}
	for i, s := range sentences(t, "testdata/unseen.jsonl") {
		c := counts[s.Half]
		if c == nil {
			c = &count{}
			counts[s.Half] = c
		}
		if Class(s.Cause) == "" {
			t.Errorf("%q is labelled %q, an unknown cause", s.Text, s.Cause)
		}
		got := Classify(Input{Status: s.Status, Text: []byte(wrap(i, s.Text, s.Status))})
		c.all++
		c.exact += one(got.ID == s.Cause)
		c.class += one(got.Class == Class(s.Cause))
		if got.ID != s.Cause {
			t.Logf("%s, %s: %s, labelled %s: %s", s.Half, s.Provider, got.ID, s.Cause, s.Text)
		}
	}
	for _, half := range slices.Sorted(maps.Keys(counts)) {
		c := counts[half]
		t.Logf("%-6s %3d texts: exact %s, class %s; first seen %.1f and %.1f", half, c.all, percent(c.exact, c.all), percent(c.class, c.all), firstSeen[half][0], firstSeen[half][1])
		exact, class := 88, 94
		if half == "third" {
			exact, class = 85, 89
		}
		if 100*c.exact < exact*c.all || 100*c.class < class*c.all {
			t.Errorf("%s got worse", half)
		}
	}
}

// TestWrappings: the envelope makes no difference.
func TestWrappings(t *testing.T) {
	for _, s := range sentences(t, "testdata/unseen.jsonl") {
		want := Classify(Input{Status: s.Status, Text: []byte(wrap(1, s.Text, s.Status))}).ID
		for n := range 8 {
			text := wrap(n, s.Text, s.Status)
			must.Equal(t, Classify(Input{Status: s.Status, Text: []byte(text)}).ID, want, "%s", text)
		}
	}
}
