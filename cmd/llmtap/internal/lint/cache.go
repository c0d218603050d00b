package lint

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// A CacheBreak says why a request cannot read from the provider's prompt cache what it shares with an earlier one.
type CacheBreak struct {
	Reason     string `json:"reason"`                    // one of package promptcache
	Element    string `json:"element,omitempty"`         // what differs: tools[3], system, messages[4] or the name of a parameter
	Detail     string `json:"detail,omitempty"`          // what changed in it
	Confidence string `json:"confidence"`                // certain or likely
	Avoidable  bool   `json:"avoidable"`                 // a change of the agent avoids it
	Previous   string `json:"previous,omitempty"`        // the record with the request before
	Reusable   int64  `json:"reusable_tokens,omitempty"` // what could have been read; 0 if the answers do not report it
	Missed     int64  `json:"missed_tokens,omitempty"`   // of these, not read
	LostBytes  int    `json:"lost_bytes,omitempty"`      // what could have been read, if answers do not report tokens
	Summary    string `json:"summary"`
	Fix        string `json:"fix,omitempty"`

	line     int
	message  int
	repeated bool // an earlier record had the reason
}

// Errors about records of which nothing is known.
var (
	errNoPolicy = errors.New("nothing is documented about the prompt cache of this provider and model")
	errWhole    = errors.New("a conversation is no request, so that nothing is known of its prompts")
)

// cache compares the request of j with the ones before it, and prints the result. Requests without a conversation and an answer are one
// conversation per file.
func (l *Linter) cache(j *job) error {
	rec, res := j.rec, &j.res
	if rec.Bare {
		return l.notJudged(res, errWhole)
	}
	conversation := rec.Conversation
	if !rec.Exchange {
		conversation = cmp.Or(conversation, res.file)
	}
	turn, _ := l.exchanges.Request(&session.Request{
		Service: rec.Service, Conversation: conversation, Exchange: res.exchange, Instance: rec.Instance, Run: rec.Run, Target: j.target, Facts: j.request, Body: rec.Body,
	})
	server := ""
	if u, err := url.Parse(rec.URL); err == nil {
		server = u.Host
	}
	call := l.caches.Request(rec.Service, server, j.target, turn, j.request, rec.Body)
	a := &j.answer
	if !j.answered {
		a = nil
	}
	v, lost := call.Answered(rec.Status, a)
	l.exchanges.Answer(turn, rec.Status, a, rec.Fault != "" && j.answer.FinishReason == "")
	if !call.Known() {
		return l.notJudged(res, errNoPolicy)
	}
	if v.Reason != "" {
		res.Cache = &CacheBreak{
			Reason: v.Reason, Element: v.Element, Detail: v.Detail, Confidence: v.Confidence, Avoidable: promptcache.Avoidable(v.Reason), Previous: turn.Previous(),
			Missed: v.Missed, LostBytes: lost, Summary: v.Summary(), Fix: v.Fix(), message: v.Message(),
		}
		res.Cache.repeated = l.reasons[v.Reason]
		l.reasons[v.Reason] = true
		if v.Missed > 0 {
			res.Cache.Reusable = v.Reusable
		}
		if res.Cache.Avoidable {
			l.Counts.Broken++
		}
		f := Finding{Message: res.Cache.message}
		if f.Message >= len(j.request.Messages) {
			f.Message = -1
		}
		res.Findings = []Finding{f}
		res.locate(j.request, j.value.Text)
		res.Cache.line, res.Findings = res.Findings[0].line, []Finding{}
	}
	l.Counts.Checked++
	return l.Printer.Print(res)
}

// cost says how much cannot be read.
func (c *CacheBreak) cost() string {
	if c.Missed > 0 {
		return fmt.Sprintf("%s of %s not read", quantity.Count(c.Missed), quantity.Plural(c.Reusable, "reusable token"))
	}
	return quantity.Plural(c.LostBytes, "byte") + " cannot be read again"
}

// text returns the summary with what it costs.
func (c *CacheBreak) text() string {
	likely := ""
	if c.Confidence == promptcache.Likely {
		likely = " (likely)"
	}
	text := fmt.Sprintf("%s%s; %s", c.Summary, likely, c.cost())
	if c.Previous != "" {
		text += "; compared with " + c.Previous
	}
	return text
}

// advice returns the text with how to avoid it.
func (c *CacheBreak) advice() string {
	if c.Fix == "" {
		return c.text()
	}
	return c.text() + "\nfix: " + c.Fix
}

// level returns the level of the break; note is the output format's name for the lowest level.
func (c *CacheBreak) level(note string) string {
	if c.Avoidable {
		return "error"
	}
	return note
}

// printCache prints the break of r.
func (t Text) printCache(r *Result, head string) error {
	c, s := r.Cache, t.Style
	paint := s.Bold
	if c.Avoidable {
		paint = s.Red
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s/%s\n", s.Bold(head), r.Dialect, r.Variant)
	b.WriteString(s.Wrap("  ", paint(c.Reason)+": "+c.text(), "  ") + "\n")
	if c.Fix != "" && !c.repeated {
		b.WriteString(s.Wrap("    ", "fix: "+c.Fix, "    ") + "\n")
	}
	_, err := fmt.Fprintln(t.W, b.String())
	return err
}

// closeCache prints the counts.
func (t Text) closeCache(c Counts) error {
	requests := quantity.Plural(c.Checked, "request")
	_, err := fmt.Fprintln(t.W, t.Style.Wrap("", fmt.Sprintf("%s compared, %d broke the prompt cache, %d not judged, %d unreadable", requests, c.Broken, c.Unjudged, c.Unreadable), "  "))
	return err
}
