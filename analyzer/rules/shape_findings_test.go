package rules_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

const (
	shared  = "../../../shared/"
	noLimit = 1 << 30
)

// A judge compares what the rules find in a request with what they find in its shape, for every variant of its dialect.
type judge struct {
	shaper   *shape.Shaper
	checker  *check.Checker
	whole    facts.Request
	shaped   facts.Request
	requests map[wire.Dialect]int
	findings int
	in, out  int // bytes
}

func newJudge() *judge {
	return &judge{shaper: shape.New([]byte("key")), checker: check.NewChecker(rules.InOrder), requests: map[wire.Dialect]int{}}
}

// A finding is what must not depend on text. Summaries may.
type finding struct {
	Rule, Predicted, CallID, Detail string
	Message                         int
}

func (j *judge) request(t *testing.T, id string, d wire.Dialect, body []byte) {
	t.Helper()
	shaped := j.shaper.Request(d, body, noLimit)
	if err := facts.ScanRequest(d, body, &j.whole); errors.Is(err, facts.ErrDialect) {
		return
	} else if err != nil {
		if !bytes.HasPrefix(shaped, []byte("~")) {
			t.Errorf("%s: %v, and its shape is %.200s", id, err, shaped)
		}
		return
	}
	j.requests[d]++
	j.in += len(body)
	j.out += len(shaped)
	if err := facts.ScanRequest(d, shaped, &j.shaped); err != nil {
		t.Errorf("%s: scan the shape: %v: %.200s", id, err, shaped)
		return
	}
	for _, v := range d.Variants() {
		target := wire.Target{Dialect: d, Variant: v, Model: string(j.whole.Model)}
		want, got := j.check(&j.whole, target), j.check(&j.shaped, target)
		j.findings += len(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s for %s (-body +shape):\n%s", id, v, diff)
			return
		}
	}
}

func (j *judge) check(r *facts.Request, target wire.Target) (found []finding) {
	for _, v := range j.checker.Check(r, target, nil) {
		f := finding{v.Rule.ID, string(v.Predicted), v.ToolCallID, v.Detail, v.Message}
		if v.Rule.ID == "arguments_invalid_json" {
			f.Detail = "" // how they are broken is not in the shape
		}
		found = append(found, f)
	}
	return found
}

func (j *judge) done(t *testing.T) {
	t.Helper()
	t.Logf("requests %v, %d findings, %d bytes became %d", j.requests, j.findings, j.in, j.out)
	if j.requests[wire.OpenAIChat] == 0 {
		t.Error("no request of chat completions was compared")
	}
}

// TestFindingsOfExamples: the rules find the same in every example and in its shape.
func TestFindingsOfExamples(t *testing.T) {
	b, err := os.ReadFile(shared + "spec/examples.json")
	if err != nil {
		t.Skipf("SKIPPED, the examples are not here: %v", err)
	}
	var examples []struct {
		Rule, Dialect    string
		Violating, Fixed json.RawMessage
	}
	must.Do(t, json.Unmarshal(b, &examples))
	j := newJudge()
	for _, e := range examples {
		for _, body := range []json.RawMessage{e.Violating, e.Fixed} {
			for _, d := range wire.Dialects { // read by another dialect, it is a hostile body
				j.request(t, e.Rule+" as "+string(d), d, body)
			}
		}
	}
	j.done(t)
}

// TestFindingsOfConversations does the same for recorded conversations.
func TestFindingsOfConversations(t *testing.T) {
	j := newJudge()
	recordedtest.Lines(t, recordedtest.Conversations, func(_ int, line []byte) {
		var c struct {
			ID, Format                     string
			Model, Messages, Tools, System json.RawMessage
			Previous                       json.RawMessage `json:"previous_response_id"`
		}
		must.Do(t, json.Unmarshal(line, &c), "decode conversation")
		d := wire.DialectNamed(c.Format)
		body := fmt.Appendf(nil, `{%q:%s`, d.Descriptor().Messages, c.Messages)
		for _, m := range []struct {
			key   string
			value json.RawMessage
		}{{"model", c.Model}, {"tools", c.Tools}, {"system", c.System}, {"previous_response_id", c.Previous}} {
			if m.value != nil {
				body = fmt.Appendf(body, `,%q:%s`, m.key, m.value)
			}
		}
		j.request(t, c.ID, d, append(body, '}'))
	})
	j.done(t)
}

// TestFactsOfExchanges does the same for recorded requests, and compares what is known of each answer.
func TestFactsOfExchanges(t *testing.T) {
	j := newJudge()
	answers, in, out := map[wire.Dialect]int{}, 0, 0
	recordedtest.Lines(t, recordedtest.Exchanges, func(_ int, line []byte) {
		var x struct {
			ID, URL           string
			Status            int
			Request, Response json.RawMessage
			ResponseEncoding  string `json:"response_encoding"`
		}
		must.Do(t, json.Unmarshal(line, &x), "decode exchange")
		u, err := url.Parse(x.URL)
		path := x.URL
		if err == nil {
			path = u.Path
		}
		d := wire.PathDialect(path)
		if d == wire.Other {
			return
		}
		if x.Request != nil && x.Request[0] == '{' {
			j.request(t, x.ID, d, x.Request)
		}
		body, text := []byte(x.Response), ""
		if json.Unmarshal(x.Response, &text) == nil {
			body = []byte(text)
		}
		if x.ResponseEncoding == "base64" {
			body, _ = base64.StdEncoding.DecodeString(text)
		}
		if x.Status >= 400 || len(body) == 0 {
			return
		}
		shaped := j.shaper.Response(d, body, noLimit)
		want, ok := answer(d, body)
		if !ok {
			return
		}
		got, _ := answer(d, shaped)
		answers[d]++
		in, out = in+len(body), out+len(shaped)
		if diff := cmp.Diff(want, got, butText); diff != "" {
			t.Errorf("%s (-body +shape):\n%s%.600s\n%.600s", x.ID, diff, body, shaped)
		}
	})
	t.Logf("answers %v, %d bytes became %d", answers, in, out)
	j.done(t)
}

// butText leaves out of a comparison what is made of texts: hashes (Thought is one), lengths, the texts themselves.
var butText = cmp.FilterPath(func(p cmp.Path) bool {
	name := strings.TrimPrefix(p.Last().String(), ".")
	return strings.HasSuffix(name, "Hash") || name == "Arguments" || name == "Error" || name == "Thought"
}, cmp.Ignore())

// answer is what is known of an answer; false where the dialect is not read.
func answer(d wire.Dialect, body []byte) (facts.Response, bool) {
	var r facts.Response
	if errors.Is(facts.ScanResponse(d, "", body, &r), facts.ErrDialect) {
		return r, false
	}
	return r, true
}
