package cause

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// A sentence is an error text of the test set, without an envelope.
type sentence struct {
	Half, Provider, Cause, Text, Source string
	Status                              int
}

func sentences(t testing.TB, path string) []sentence {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []sentence
	for s := bufio.NewScanner(file); s.Scan(); {
		var one sentence
		if err := json.Unmarshal(s.Bytes(), &one); err != nil {
			t.Fatalf("decode %s: %v", s.Bytes(), err)
		}
		all = append(all, one)
	}
	return all
}

// wrap puts a sentence into the n-th of the envelopes in which such texts are found.
func wrap(n int, s string, status int) string {
	q := func(s string) string {
		b, _ := json.Marshal(s)
		return string(b)
	}
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

// TestUnseen measures Classify on wordings that were collected and labelled apart from the tables.
func TestUnseen(t *testing.T) {
	type count struct{ exact, class, all int }
	counts := map[string]*count{}
	for i, s := range sentences(t, "testdata/unseen.jsonl") {
		c := counts[s.Half]
		if c == nil {
			c = &count{}
			counts[s.Half] = c
		}
		got := Classify(Input{Status: s.Status, Text: []byte(wrap(i, s.Text, s.Status))})
		c.all++
		if got.ID == s.Cause {
			c.exact++
		}
		if got.Class == Class(s.Cause) {
			c.class++
		}
		if got.ID != s.Cause && (s.Half == os.Getenv("SHOW")) {
			t.Logf("%-10s %s, labelled %s: %s", s.Provider, got.ID, s.Cause, s.Text)
		}
	}
	for half, c := range counts {
		t.Logf("%s: exact %d of %d (%.1f %%), class %d (%.1f %%)", half, c.exact, c.all, 100*float64(c.exact)/float64(c.all), c.class, 100*float64(c.class)/float64(c.all))
	}
}
