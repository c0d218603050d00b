package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/rules"
)

// JSONL prints one object per record.
type JSONL struct{ E *json.Encoder }

// Print encodes r.
func (j JSONL) Print(r *Result) error { return j.E.Encode(r) }

// Close does nothing.
func (JSONL) Close(Counts) error { return nil }

// GitHub prints workflow commands, which GitHub shows as annotations of files.
type GitHub struct{ W io.Writer }

// Print prints each finding of r as an error, a warning or a notice, unless an earlier record reported it.
func (g GitHub) Print(r *Result) error {
	if r.Error != "" {
		return g.command("error", r, r.line, "unreadable", r.Error)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.repeated {
			continue
		}
		if err := g.command(f.level("notice"), r, f.line, f.Rule, f.message()+"\nfix: "+f.Fix); err != nil {
			return err
		}
	}
	return nil
}

// Close does nothing.
func (GitHub) Close(Counts) error { return nil }

var (
	githubText     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func (g GitHub) command(level string, r *Result, line int, title, text string) error {
	_, err := fmt.Fprintf(g.W, "::%s file=%s,line=%d,title=%s::%s\n", level, githubProperty.Replace(r.file), max(line, 1), githubProperty.Replace(title), githubText.Replace(text))
	return err
}

// level returns the level of the finding; style is the name of the format for the lowest one.
func (f *Finding) level(style string) string {
	switch f.Predicted {
	case check.Reject:
		return "error"
	case check.Lenient:
		return "warning"
	default:
		return style
	}
}

// message returns the summary with the root cause, if known.
func (f *Finding) message() string {
	if !f.explained {
		return f.Summary
	}
	return fmt.Sprintf("%s\nroot cause: %s (%s): %s", f.Summary, f.RootCause, f.Confidence, f.Evidence)
}

// SARIF collects all results in one SARIF 2.1.0 log, which Close writes.
type SARIF struct {
	W       io.Writer
	Version string // of llmtap

	results []sarifResult
	notes   []sarifNote
}

// maxSARIF bounds the results of a log: code scanning services accept about 25,000.
const maxSARIF = 25_000

type (
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
			Region struct {
				StartLine int `json:"startLine"`
			} `json:"region"`
		} `json:"physicalLocation"`
		Logical []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints,omitempty"`
		Properties   sarifProperties   `json:"properties"`
	}
	sarifProperties struct {
		Record     string `json:"record,omitempty"`
		Target     string `json:"target"`
		ToolCallID string `json:"tool_call_id,omitempty"`
		Severity   string `json:"severity"`
		RootCause  string `json:"root_cause,omitempty"`
		Confidence string `json:"confidence,omitempty"`
	}
	sarifNote struct {
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifRule struct {
		ID    string    `json:"id"`
		Short sarifText `json:"shortDescription"`
		Full  sarifText `json:"fullDescription"`
		Help  sarifText `json:"help"`
	}
)

// location returns the location of a finding; message is -1 if it has none.
func (r *Result) location(line, message int) []sarifLocation {
	var l sarifLocation
	l.Physical.Artifact.URI = fileURI(r.file)
	l.Physical.Region.StartLine = max(line, 1)
	if message >= 0 {
		l.Logical = []sarifLogical{{r.Dialect.Descriptor().Messages + "[" + strconv.Itoa(message) + "]"}}
	}
	return []sarifLocation{l}
}

// fileURI returns a file name as a URI reference. A relative name stays relative to the root of the project.
func fileURI(name string) string {
	u := url.URL{Path: filepath.ToSlash(name)}
	if filepath.IsAbs(name) {
		u.Scheme = "file"
	}
	return u.String()
}

// fingerprints identifies results of the same defect for code scanning.
func fingerprints(f *Finding) map[string]string {
	if f.ID == "" {
		return nil
	}
	return map[string]string{"llmtapFinding/v1": f.ID}
}

// Print collects the findings of r that no earlier record reported.
func (s *SARIF) Print(r *Result) error {
	if r.Error != "" && len(s.notes) < maxSARIF {
		s.notes = append(s.notes, sarifNote{Level: "error", Message: sarifText{r.Error}, Locations: r.location(r.line, -1)})
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.repeated {
			continue
		}
		if len(s.results) == maxSARIF {
			return nil
		}
		s.results = append(s.results, sarifResult{
			RuleID: f.Rule, RuleIndex: ruleIndex[f.Rule], Level: f.level("note"), Message: sarifText{f.message()},
			Locations: r.location(f.line, f.Message), Fingerprints: fingerprints(f),
			Properties: sarifProperties{
				Record: r.ID, Target: string(r.Dialect) + "/" + string(r.Variant), ToolCallID: f.ToolCallID, Severity: string(f.Severity),
				RootCause: f.RootCause, Confidence: f.Confidence,
			},
		})
	}
	return nil
}

// ruleIndex is the index of each rule in rules.All.
var ruleIndex = func() map[string]int {
	m := make(map[string]int, len(rules.All))
	for i, r := range rules.All {
		m[r.ID] = i
	}
	return m
}()

// Close writes the log.
func (s *SARIF) Close(Counts) error {
	all := make([]sarifRule, len(rules.All))
	for i, r := range rules.All {
		all[i] = sarifRule{ID: r.ID, Short: sarifText{r.Title()}, Full: sarifText{r.Doc}, Help: sarifText{r.Fix}}
	}
	if s.results == nil {
		s.results = []sarifResult{}
	}
	invocation := map[string]any{"executionSuccessful": len(s.notes) == 0}
	if len(s.notes) > 0 {
		invocation["toolExecutionNotifications"] = s.notes
	}
	enc := json.NewEncoder(s.W)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []any{map[string]any{
			"tool": map[string]any{"driver": map[string]any{
				"name": "llmtap", "version": s.Version, "informationUri": "https://github.com/llmtap/llmtap", "rules": all,
			}},
			"invocations": []any{invocation},
			"results":     s.results,
		}},
	})
}
