package rules_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// evidence is what recorded traffic proves of a rule and a target: requests with the defect that were accepted, and those that were
// refused with a text that names it.
type evidence struct {
	accepted, refused int
	lenient           bool // accepted, and the rule says only that others reject it
	example           string
}

// TestRecordedEvidence derives from the recorded exchanges who refuses and who accepts what, and compares it with providers.txt: a
// refusal has a row that says so, an acceptance of what the rules do not know has one, and a row with the source "recorded" has a
// recording.
func TestRecordedEvidence(t *testing.T) {
	found := map[[2]string]*evidence{}
	of := func(rule string, target wire.Target) *evidence {
		key := [2]string{rule, string(target.Dialect) + "." + string(target.Variant)}
		if target.Native {
			key[1] += ".native"
		}
		if found[key] == nil {
			found[key] = &evidence{}
		}
		return found[key]
	}
	checker := check.NewChecker(rules.InOrder)
	var request facts.Request
	recordedtest.Lines(t, recordedtest.Exchanges, func(_ int, line []byte) {
		var x struct {
			ID, URL           string
			Status            int
			Request, Response json.RawMessage
		}
		must.Do(t, json.Unmarshal(line, &x))
		if len(x.Request) == 0 || x.Request[0] != '{' {
			return
		}
		target := facts.Detect(x.URL, "", x.Request)
		if target.Dialect == wire.Other || facts.ScanRequest(target.Dialect, x.Request, &request) != nil {
			return
		}
		target = target.WithModel(string(request.Model))
		violations := checker.Check(&request, target, nil)
		switch {
		case x.Status/100 == 2:
			for _, rule := range rules.All {
				if breaks(checker, rule, &request, target) {
					of(rule.ID, target).accepted++
				}
			}
			for _, v := range violations {
				e := of(v.Rule.ID, target)
				e.lenient = e.lenient || v.Predicted == check.Lenient
			}
		case x.Status == http.StatusBadRequest || x.Status == http.StatusUnprocessableEntity:
			if v := namedBy(violations, x.Status, x.Response, target.Variant); v != nil {
				e := of(v.Rule.ID, target)
				e.refused++
				e.example = x.ID
			}
		}
	})

	rows := rules.Stands(t)
	has := func(key [2]string, ok func(rules.Stand) bool) bool { return slices.ContainsFunc(rows[key], ok) }
	for key, e := range found {
		if strings.HasSuffix(key[1], "."+string(wire.OtherVariant)) {
			continue // unknown hosts differ
		}
		if e.refused > 0 && !has(key, func(s rules.Stand) bool { return s.Verdict == "rejects" }) {
			t.Errorf("%s: %d recorded requests to %s were refused for it, and providers.txt has no row that says so (%s)", key[0], e.refused, key[1], e.example)
		}
		if e.lenient && !has(key, func(s rules.Stand) bool { return s.Recorded && s.Verdict != "rejects" }) {
			t.Errorf("%s: recorded requests to %s were accepted with it, and providers.txt has no row that says so", key[0], key[1])
		}
	}
	for key, stands := range rows {
		e := found[key]
		for _, s := range stands {
			switch {
			case !s.Recorded:
			case e == nil, s.Verdict == "rejects" && e.refused == 0, s.Verdict == "accepts" && e.accepted == 0:
				t.Errorf("%s of %s: providers.txt says %s, recorded, and no recording shows it", key[0], key[1], s.Verdict)
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(found), func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) }) {
		t.Logf("%-30s %-32s %4d accepted, %3d refused", key[0], key[1], found[key].accepted, found[key].refused)
	}
}

// breaks reports whether r breaks the rule for any variant of the target's dialect.
func breaks(checker *check.Checker, rule *check.Rule, r *facts.Request, target wire.Target) bool {
	for _, v := range target.Dialect.Variants() {
		target.Variant = v
		if len(checker.CheckRule(rule, r, target, nil)) > 0 {
			return true
		}
	}
	return false
}

// namedBy returns the first violation of the only rule that the text of a refusal confirms; nil if there is none, or several.
func namedBy(violations []check.Violation, status int, text []byte, variant wire.Variant) *check.Violation {
	var only *check.Violation
	for i := range violations {
		v := &violations[i]
		if only != nil && only.Rule == v.Rule {
			continue
		}
		c := cause.Classify(cause.Input{Status: status, Text: text, Variant: variant, Rules: []string{v.Rule.ID}})
		if c.Known != cause.Both {
			continue
		}
		if only != nil {
			return nil
		}
		only = v
	}
	return only
}

// textsOf maps the names in the recorded error texts to targets whose provider wrote them.
var textsOf = map[string]string{
	"openai": "openai_chat.openai", "azure": "openai_chat.azure", "deepseek": "openai_chat.deepseek", "mistral": "openai_chat.mistral",
	"groq": "openai_chat.groq", "xai": "openai_chat.xai", "kimi": "openai_chat.kimi", "moonshot": "openai_chat.kimi", "zhipu": "openai_chat.glm",
	"qwen-dashscope": "openai_chat.qwen", "minimax": "openai_chat.minimax", "anthropic": "anthropic.anthropic", "bedrock": "bedrock.bedrock",
	"gemini": "gemini.gemini", "cohere": "cohere.cohere", "fireworks": "openai_chat.fireworks", "cerebras": "openai_chat.cerebras", "ollama": "openai_chat.ollama",
}

// TestRecordedTexts: no row says that a provider accepts, always, what one of its recorded error texts refuses.
func TestRecordedTexts(t *testing.T) {
	rows := rules.Stands(t)
	texts := 0
	recordedtest.Lines(t, recordedtest.Errors, func(_ int, line []byte) {
		x := must.JSON[struct{ ID, Provider, Body, Cause string }](t, line)
		for _, rule := range rules.All {
			if rule.ID != x.Cause { // of a cause with several rules, the text does not show which
				continue
			}
			texts++
			for _, s := range rows[[2]string{rule.ID, textsOf[x.Provider]}] {
				if s.Whole && s.Verdict == "accepts" {
					t.Errorf("%s: %s refused it, and providers.txt says that it accepts %s", x.ID, x.Provider, rule.ID)
				}
			}
		}
	})
	t.Logf("%d texts", texts)
}
