package regression

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/reduce"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/dialect"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Formats of a test.
const (
	Pytest = "pytest"
	Go     = "go"
)

// width is the maximum length of a line, except for answers.
const width = 100

//go:embed *.tmpl
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*.tmpl"))

// A Test is the content of a template.
type Test struct {
	Exchange string
	Name     string   // of the test: the root cause, else the rule
	Summary  []string // lines
	Answers  []string // bodies of answers, or data of their only events; the last one is returned again and again
	Before   int      // requests before the refused one

	Dialect          wire.Dialect
	Variant          wire.Variant
	URLVariable      string // environment variable with the base URL
	KeyVariable      string
	Path             string // of the base URL
	ContentType, End string // End is what follows the event of a stream
	Stream           bool
	Wide             bool // an answer is longer than a line
}

// Target is the value of --dialect of llmtap lint.
func (t *Test) Target() string { return string(t.Dialect) + "/" + string(t.Variant) }

// GoName is Name in camel case.
func (t *Test) GoName() string {
	var b strings.Builder
	for word := range strings.SplitSeq(t.Name, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// Options are the options of Write.
type Options struct {
	Format   string // Pytest or Go
	Exchange string // id of the exchange with the fault
	Stream   bool   // the agent reads answers as streams
	Shaped   bool   // only shapes are stored
	Full     bool   // keep all answers, whole
}

// Write writes a test that fails while the agent makes the error of fault f, the fault of the last request of c.
func Write(w io.Writer, c *reduce.Case, f *reduce.Fault, o Options) error {
	d := dialect.Of(c.Target.Dialect)
	switch {
	case d == nil:
		return fmt.Errorf("a test of dialect %s is not supported", c.Target.Dialect)
	case o.Stream && d.Chunk == nil || c.Target.Native:
		return fmt.Errorf("the agent reads streams of dialect %s, which the test cannot play; record it without streaming", c.Target.Dialect)
	case o.Format == Go && !alone(c, f):
		return fmt.Errorf("%s needs the answer before the request, which rules.Accepted does not see; use --as-test pytest", f.Rule)
	}
	if !c.Makes(f) {
		return fmt.Errorf("the answer with call %s is not stored, so no test can give it to the agent; llmtap show %s --format body prints the request",
			f.ToolCallID, o.Exchange)
	}
	mask, err := redact.NewRedactor(redact.Config{Kinds: redact.Kinds})
	if err != nil {
		return fmt.Errorf("mask secrets: %w", err)
	}
	if c, err = masked(mask, c); err != nil { // before texts are shortened, because a part of a secret is not recognized
		return fmt.Errorf("mask secrets: %w", err)
	}
	if !o.Full {
		c = reduce.Reduce(c, f)
	}
	t := &Test{
		Exchange: o.Exchange, Name: f.Rule, Dialect: c.Target.Dialect, Variant: c.Target.Variant,
		URLVariable: d.SDK.URL, KeyVariable: d.SDK.Key, Path: d.SDK.Path, ContentType: "application/json", Stream: o.Stream,
	}
	if t.Stream {
		t.ContentType = "text/event-stream"
		if last := t.Dialect.Descriptor().LastData; last != "" {
			t.End = `data: ` + last + `\n\n`
		}
	}
	summary := f.Rule + ": " + f.Summary + "."
	if root := cmp.Or(f.Stored, f.RootCause); root != "" && root != session.NoHistory {
		t.Name, summary = root, root+", "+summary
	}
	if o.Shaped {
		summary += " EDIT: only shapes are stored; replace the names k… and the texts ~… in the answers."
	}
	t.Summary = terminal.Wrap(string(mask.Append(nil, []byte(summary))), width-len("// "), "")
	for _, answer := range c.Answers(f) {
		t.Answers = append(t.Answers, literal(c.Target.Dialect, t.Stream, answer))
	}
	t.Before = len(t.Answers)
	t.Answers = append(t.Answers, literal(c.Target.Dialect, t.Stream, d.Answer("done")))
	t.Wide = slices.ContainsFunc(t.Answers, func(a string) bool { return utf8.RuneCountInString(a) > width })
	if err := templates.ExecuteTemplate(w, o.Format+".tmpl", t); err != nil {
		return fmt.Errorf("write test: %w", err)
	}
	return nil
}

// masked returns c with its secrets masked.
func masked(mask *redact.Redactor, c *reduce.Case) (*reduce.Case, error) {
	all := &reduce.Case{Target: c.Target, Steps: slices.Clone(c.Steps)}
	for i := range all.Steps {
		s := &all.Steps[i]
		var err error
		if s.Request, err = reduce.Decode[map[string]any](mask.Append(nil, reduce.Encode(s.Request))); err != nil {
			return nil, err
		}
		if s.Answer, err = reduce.Decode[[]any](mask.Append(nil, reduce.Encode(s.Answer))); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// literal returns the body of an answer for a raw string of Python and Go.
func literal(d wire.Dialect, stream bool, answer []any) string {
	body := reduce.Response(d, answer)
	if stream {
		body = reduce.Chunk(d, answer)
	}
	return strings.ReplaceAll(string(body), "`", `\u0060`)
}

// alone reports whether the fault shows in the last request alone.
func alone(c *reduce.Case, f *reduce.Fault) bool {
	found, err := rules.Lint(c.Target, reduce.Encode(c.Steps[len(c.Steps)-1].Request))
	if err != nil {
		return false
	}
	for i := range found {
		if found[i].Rule.ID == f.Rule {
			return true
		}
	}
	return false
}
