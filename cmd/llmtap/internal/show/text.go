package show

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

const (
	shownError  = 480 // maximum characters of an error text
	shownParams = 600
	shownLabel  = 80
	nearMarked  = 3 // messages shown before and after a message with a finding
)

// Text writes e for a terminal.
func (e *Exchange) Text(w io.Writer, o Options) error {
	v := o.view()
	v.WriteString(v.Bold("call "+e.ID) + "\n")
	v.fact("conversation", terminal.Clip(e.Conversation, 200))
	v.fact("time", v.Time(e.StartedAt)+", took "+quantity.Latency(e.Seconds))
	v.fact("sender", e.sender())
	v.fact("provider", strings.TrimSpace(fmt.Sprintf("%s%s  %s  (%s/%s)", e.Server, e.Path, e.Model, e.Dialect, e.Variant)))
	v.fact("code", e.Code)
	v.outcome(e)
	if e.Cache != nil {
		v.fact("prompt cache", e.Cache.String())
	}
	v.fact("error", v.excerpt(e.ErrorText, e.Findings, shownError))
	v.shapes(e)
	for _, m := range e.Missing {
		v.WriteString("\n")
		v.linef(0, 2, "NOT STORED: %s", m)
	}
	if e.Parameters != "" {
		v.WriteString("\n" + v.Bold("parameters") + "\n")
		v.text(2, e.Parameters, shownParams)
	}
	v.messages(e)
	if len(e.Earlier) > 0 {
		v.WriteString("\n" + v.Bold("earlier findings of the conversation, which the history may still contain") + "\n")
		for i := range e.Earlier {
			f := &e.Earlier[i]
			v.linef(2, 2, "%s (%s): %s; first seen in call %s", f.Rule, f.Verdict(), v.short(f.Summary, shownText), f.Exchange)
		}
	}
	if e.Answer != "" {
		v.WriteString("\n" + v.Bold("answer") + "\n")
		v.answer(e)
	}
	v.WriteString("\n")
	if _, ok := e.Body(); ok {
		as := "The request as sent: --format body."
		if o.Arguments {
			as = ""
		}
		v.linef(0, 2, "Whole texts: %s. %s", v.option("full"), as)
	}
	if e.Conversation != "" || !o.Arguments {
		v.linef(0, 2, "The conversation: %s", v.command(e.Conversation))
	}
	_, err := io.WriteString(w, v.String())
	return err
}

// fact writes a line of the head of an exchange.
func (v *view) fact(name, text string) {
	if text != "" {
		v.labeled(2, 14, name, text)
	}
}

// messages writes the messages of e with their findings below them.
func (v *view) messages(e *Exchange) {
	byMessage := map[int][]*Finding{}
	var marked []int
	for i := range e.Findings {
		f := &e.Findings[i]
		at := f.Message
		if at >= len(e.Messages) {
			at = -1
		}
		byMessage[at] = append(byMessage[at], f)
		marked = append(marked, at)
	}
	if len(e.Messages) > 0 {
		v.WriteString("\n" + v.Bold(fmt.Sprintf("messages (%d)", len(e.Messages))) + "\n")
	}
	each(v.gaps(len(e.Messages), 3, 12, nearMarked, marked), func(i int) {
		v.numbered(2, i, e.Messages[i], len(byMessage[i]) > 0)
		for _, f := range byMessage[i] {
			v.finding(6, f)
		}
	}, func(n int) {
		v.linef(8, 0, "… %s left out; all: %s", quantity.Plural(n, "message"), v.option("full"))
	})
	if len(byMessage[-1]) > 0 {
		v.WriteString("\n" + v.Bold("findings of the request as a whole") + "\n")
		for _, f := range byMessage[-1] {
			v.finding(2, f)
		}
	}
}

// numbered writes message i.
func (v *view) numbered(indent, i int, body string, marked bool) {
	mark := " "
	if marked {
		mark = ">"
	}
	if body == "" {
		fmt.Fprintf(v, "%s%s %3d (not stored)\n", strings.Repeat(" ", indent), mark, i)
		return
	}
	v.message(indent, mark, fmt.Sprint(i), body)
}

// answer writes the messages of the answer of e.
func (v *view) answer(e *Exchange) {
	all := records.Answer(wire.Dialect(e.Dialect), []byte(e.Answer))
	for _, m := range all {
		v.message(2, "<", "", string(m))
	}
	if all == nil {
		v.text(2, e.Answer, shownError)
	}
}

// Shaped reports whether only the shapes of texts are stored of e.
func (e *Exchange) Shaped() bool {
	shaped := e.Capture == event.CaptureShape
	for _, m := range e.Messages {
		shaped = shaped || shapedText.MatchString(m)
	}
	return shaped
}

// OnlyShapes says what is stored of a shaped exchange.
const OnlyShapes = "Only shapes are stored, which suffice for most checks and keep what users write with the agent: " +
	"roles, names of tools, ids and structure, and of a text its length and a hash. " +
	"Equal hashes mean equal texts. To store the texts of one service, set the capture mode to full where its hook is opened, or --proxy-capture."

// shapedText matches the shape of a text; see package shape.
var shapedText = regexp.MustCompile(`"~(\d+):[0-9a-f]{16}(?::\w+)?"`)

// shapedKey matches a name in free content, such as an argument of a call, in a shape.
var shapedKey = regexp.MustCompile(`"k[0-9a-f]{16}": *`)

// Readable replaces shapes in JSON by their sizes: {"k84d8e2ef713e31d4":"~9:ac71f2eb95ef6312"} becomes {…: (9 bytes)}. Other texts
// are unchanged.
func Readable(text string) string {
	if !shapedText.MatchString(text) {
		return text
	}
	return shapedText.ReplaceAllString(shapedKey.ReplaceAllString(text, "…: "), "($1 bytes)")
}

// Withheld says what is shown of an exchange whose texts are withheld.
const Withheld = "Texts are withheld: only their length and a hash are shown, and equal hashes mean equal texts."

// shapes writes that only the shapes of texts are stored or shown.
func (v *view) shapes(e *Exchange) {
	text := ""
	switch {
	case e.withheld:
		text = Withheld
	case e.Shaped():
		text = OnlyShapes
	default:
		return
	}
	v.WriteString("\n")
	v.line(0, 0, text)
}

// excerpt returns an error text, cut around the call or message that the findings are about, else in the middle.
func (v *view) excerpt(text string, findings []Finding, n int) string {
	if text = spaced(text); v.full || utf8.RuneCountInString(text) <= n {
		return terminal.Line(text)
	}
	for i := range findings {
		for _, want := range []string{findings[i].ToolCallID, fmt.Sprintf("messages[%d]", findings[i].Message), fmt.Sprintf("messages.%d", findings[i].Message)} {
			if at := strings.Index(text, want); want != "" && at >= 0 {
				return terminal.Line(terminal.Around(text, at, n))
			}
		}
	}
	return v.short(text, n)
}

// sender returns service, version, environment, stage and agent.
func (e *Exchange) sender() string {
	parts := []string{strings.TrimSpace(e.Service + " " + e.ServiceVersion)}
	if e.Environment != "" {
		parts = append(parts, e.Environment)
	}
	if e.Stage != "" {
		parts = append(parts, "stage "+e.Stage)
	}
	if e.Agent != "" && e.Agent != e.Stage {
		parts = append(parts, "agent "+e.Agent)
	}
	return terminal.Clip(strings.Join(parts, ", "), 400)
}

// outcome writes status, causes, tokens and attempt.
func (v *view) outcome(e *Exchange) {
	status := fmt.Sprintf("status %d", e.Status)
	switch {
	case e.Status == 0:
		status = v.Red("no answer")
	case e.Status >= 400 || e.Cause != "":
		status = v.Red(status)
	}
	parts := []string{}
	if e.FinishReason != "" {
		parts = append(parts, "finished: "+terminal.Clip(e.FinishReason, 60))
	}
	if e.Cause == "" && e.ErrorType != "" {
		parts = append(parts, e.ErrorType)
	}
	switch {
	case e.OutputTokens > 0:
		parts = append(parts, fmt.Sprintf("%d tokens in, %d out", e.InputTokens, e.OutputTokens))
	case e.InputTokens > 0: // a stream that was cut does not count its output
		parts = append(parts, fmt.Sprintf("%d tokens in", e.InputTokens))
	}
	if e.Retry > 0 {
		parts = append(parts, fmt.Sprintf("SDK attempt %d", e.Retry+1))
	}
	fmt.Fprintf(v, "  %-14s%s\n", "outcome", strings.Join(append([]string{status}, parts...), "; "))
	if e.Cause != "" {
		v.fact("cause", fmt.Sprintf("%s (%s)", e.Cause, e.CauseKnown))
	}
	v.fact("root cause", e.RootCause)
}

// quoted returns s as an argument for a shell.
func quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// object returns e with request and answer, for JSON. A body that is not JSON becomes a string.
func (e *Exchange) object() any {
	c, answer := e.call()
	return struct {
		*Exchange
		call
		Answer json.RawMessage `json:"answer,omitempty"`
	}{e, c, answer}
}

// A call has what llmtap lint reads of an exchange.
type call struct {
	URL      string          `json:"url,omitempty"`
	Request  json.RawMessage `json:"request,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
}

// call returns the call of e and its answer apart.
func (e *Exchange) call() (c call, answer json.RawMessage) {
	if e.Server != "" {
		c.URL = "https://" + e.Server + e.Path
	}
	if body, ok := e.Body(); ok {
		c.Request = value(body)
	}
	if e.Answer != "" {
		answer = value(e.Answer)
	}
	return c, answer
}

// object returns t with its whole request and answer. It reads the bodies of t.
func (t *Turn) object(ctx context.Context, s Store) (any, error) {
	if err := t.fill(ctx, s); err != nil {
		return nil, err
	}
	c, answer := t.call()
	c.Response = answer
	return struct {
		*Turn
		call
	}{t, c}, nil
}

// value returns body as JSON: unchanged if it is valid JSON, else as a string.
func value(body string) json.RawMessage {
	if json.Valid([]byte(body)) {
		return json.RawMessage(body)
	}
	var b bytes.Buffer
	_ = command.WriteJSON(&b, body) // no error: a string can always be encoded
	return bytes.TrimSpace(b.Bytes())
}
