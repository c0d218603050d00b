package lint

import (
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
)

// Rows prints one object per record, as JSON or JSON lines.
type Rows = table.Rows[*Result, Counts]

// GitHub prints workflow commands, which GitHub shows as annotations on files.
type GitHub struct{ W io.Writer }

// Print prints each finding of r as an error, a warning or a notice, unless an earlier record reported it.
func (g GitHub) Print(r *Result) error {
	if r.Error != "" {
		return g.command("error", r, r.line, "unreadable", r.repeated(r.Error))
	}
	if r.NotJudged != "" && !r.counted {
		if err := g.command("error", r, r.line, "not judged", r.repeated(r.NotJudged)); err != nil {
			return err
		}
	}
	if c := r.Cache; c != nil {
		return g.command(c.level("notice"), r, c.line, c.Reason, c.advice())
	}
	if failure, fix := r.unexplained(); failure != "" {
		if err := g.command(r.level(), r, r.line, r.Cause, failure+"\nfix: "+fix); err != nil {
			return err
		}
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

// level returns the level of a failure that no finding explains.
func (r *Result) level() string {
	if r.Refused > 0 {
		return "error"
	}
	return "warning"
}

// level returns the level of the finding; style is the output format's name for the lowest level.
func (f *Finding) level(style string) string {
	switch f.Severity {
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
	Version string // version of llmtap

	results, notes []object
}

// maxSARIF is the maximum number of results in a log. Code scanning services accept about 25,000.
const maxSARIF = 25_000

type object = map[string]any

func sarifText(text string) object { return object{"text": text} }

// location returns the location of a finding; message is -1 if the finding has no message.
func (r *Result) location(line, message int) []object {
	l := object{"physicalLocation": object{"artifactLocation": object{"uri": fileURI(r.file)}, "region": object{"startLine": max(line, 1)}}}
	if message >= 0 {
		l["logicalLocations"] = []object{{"fullyQualifiedName": fmt.Sprintf("%s[%d]", r.Dialect.Descriptor().Messages, message)}}
	}
	return []object{l}
}

// fileURI returns a file name as a URI reference. A relative name stays relative to the root of the project.
func fileURI(name string) string {
	u := url.URL{Path: filepath.ToSlash(name)}
	if filepath.IsAbs(name) {
		u.Scheme = "file"
	}
	return u.String()
}

// Print collects the findings of r that no earlier record reported.
func (s *SARIF) Print(r *Result) error {
	for prefix, text := range map[string]string{"unreadable: ": r.Error, "not judged: ": r.NotJudged} {
		if text != "" && len(s.notes) < maxSARIF {
			s.notes = append(s.notes, object{"level": "error", "message": sarifText(prefix + r.repeated(text)), "locations": r.location(r.line, -1)})
		}
	}
	if c := r.Cache; c != nil && len(s.results) < maxSARIF {
		s.results = append(s.results, object{
			"ruleId": "cache/" + c.Reason, "level": c.level("note"), "message": sarifText(c.advice()), "locations": r.location(c.line, c.message),
			"properties": object{"target": string(r.Dialect) + "/" + string(r.Variant), "element": c.Element, "confidence": c.Confidence},
		})
	}
	if failure, fix := r.unexplained(); failure != "" && len(s.results) < maxSARIF {
		s.results = append(s.results, object{
			"ruleId": "failure/" + r.Cause, "level": r.level(), "message": sarifText(failure + "\nfix: " + fix), "locations": r.location(r.line, -1),
		})
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.repeated || len(s.results) == maxSARIF {
			continue
		}
		properties := object{"target": string(r.Dialect) + "/" + string(r.Variant), "severity": f.Severity}
		for name, value := range map[string]string{"record": r.ID, "tool_call_id": f.ToolCallID, "root_cause": f.RootCause, "confidence": f.Confidence} {
			if value != "" {
				properties[name] = value
			}
		}
		result := object{
			"ruleId": f.Rule, "ruleIndex": ruleIndex[f.Rule], "level": f.level("note"), "message": sarifText(f.message()),
			"locations": r.location(f.line, f.Message), "properties": properties,
		}
		if f.ID != "" { // allows code scanning to identify results of the same defect
			result["partialFingerprints"] = object{"llmtapFinding/v1": f.ID}
		}
		s.results = append(s.results, result)
	}
	return nil
}

// ruleIndex contains the index of each rule in rules.All.
var ruleIndex = func() map[string]int {
	m := make(map[string]int, len(rules.All))
	for i, r := range rules.All {
		m[r.ID] = i
	}
	return m
}()

// Close writes the log.
func (s *SARIF) Close(Counts) error {
	all := make([]object, len(rules.All))
	for i, r := range rules.All {
		all[i] = object{"id": r.ID, "shortDescription": sarifText(r.Title()), "fullDescription": sarifText(r.Doc), "help": sarifText(r.Fix)}
	}
	if s.results == nil {
		s.results = []object{}
	}
	invocation := object{"executionSuccessful": len(s.notes) == 0}
	if len(s.notes) > 0 {
		invocation["toolExecutionNotifications"] = s.notes
	}
	return command.WriteJSON(s.W, object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []object{{
			"tool": object{"driver": object{
				"name": "llmtap", "version": s.Version, "informationUri": "https://github.com/llmtap/llmtap", "rules": all,
			}},
			"invocations": []object{invocation},
			"results":     s.results,
		}},
	})
}
