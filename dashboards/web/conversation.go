package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	nearRequests  = 60       // requests listed around the one shown
	shownMessages = 600      // messages of a request on one page
	startLines    = 14       // lines of a text before "show all"
	startText     = 900      // characters of a text before "show all"
	wholeText     = 20_000   // maximum characters of a text that is on the page as a whole
	wholeTexts    = 2 << 20  // the same for all texts of a page, in bytes
	rawBytes      = 32 << 20 // maximum size of a raw body
)

// A chosen is the request that a page is about, which its sections load once.
type chosen struct {
	source                 Conversations
	view                   *View
	exchange, conversation string // the first is empty if the page is about a conversation; the second if it is not known yet

	loading, listing sync.Once
	x                *Exchange
	xErr             error
	all              *Requests
	allErr           error
}

// load returns the request with its messages.
func (c *chosen) load(ctx context.Context) (*Exchange, error) {
	c.loading.Do(func() {
		id := c.exchange
		if id == "" {
			all, err := c.list(ctx)
			if err != nil {
				c.xErr = err
				return
			}
			id = all.List[max(all.At, 0)].ID
		}
		c.x, c.xErr = c.source.Exchange(ctx, id)
	})
	return c.x, c.xErr
}

// list returns the requests of the conversation.
func (c *chosen) list(ctx context.Context) (*Requests, error) {
	c.listing.Do(func() {
		conversation := c.conversation
		if conversation == "" {
			x, err := c.load(ctx)
			if err != nil {
				c.allErr = err
				return
			}
			if conversation = x.Conversation; conversation == "" {
				c.all = &Requests{At: -1}
				return
			}
		}
		c.all, c.allErr = c.source.Requests(ctx, conversation, c.exchange, nearRequests)
		if c.allErr == nil && len(c.all.List) == 0 {
			c.allErr = fmt.Errorf("%w: the conversation has no requests", ErrNotFound)
		}
	})
	return c.all, c.allErr
}

// A conversationPage shows a request of a conversation.
type conversationPage struct {
	*site
	conversations Conversations // nil: none
}

// ServeHTTP serves the page of a request: of the one with the id, or of the one that broke the conversation with the id.
func (s conversationPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.page(r, "Request", "")
	p.Static, p.Range = true, "" // what was sent does not change
	id := r.PathValue("id")
	c := &chosen{source: s.conversations, view: p.View}
	ctx := r.Context()
	err := await(s.site, w, r, p, func() error { return s.find(ctx, id, c) })
	if err != nil {
		status := http.StatusInternalServerError
		switch {
		case errors.Is(err, ErrNotFound):
			status = http.StatusNotFound
			p.Title = "No such conversation or request"
		case down(err):
			status = http.StatusServiceUnavailable
		}
		s.serveStatus(w, r, status, p, section{id: "missing", template: "conversation-missing", load: func(context.Context) (any, error) { return nil, err }})
		return
	}
	p.Title = "Request " + short(60, c.exchange)
	if c.exchange == "" {
		p.Title = "Conversation " + short(60, c.conversation)
	}
	s.serve(w, r, p,
		section{id: "head", template: "conversation-head", load: c.head},
		section{id: "requests", template: "conversation-requests", title: "Requests of this conversation", load: c.requests},
		section{id: "messages", template: "conversation-messages", title: "Messages", load: c.messages},
	)
}

// find sets the id that a page is about.
func (s conversationPage) find(ctx context.Context, id string, c *chosen) (err error) {
	if s.conversations == nil {
		return fmt.Errorf("conversations are %w in this process", ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, sectionTimeout)
	defer cancel()
	c.exchange, c.conversation, err = s.conversations.Find(ctx, id)
	if err == nil {
		access.Note(ctx, access.ReadTexts, cmp.Or(c.conversation, c.exchange), c.exchange)
	}
	return err
}

// raw serves a part of an exchange as it was captured.
func (s conversationPage) raw(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), sectionTimeout)
	defer cancel()
	var c chosen
	err := s.find(ctx, r.PathValue("id"), &c)
	if err == nil && c.exchange == "" {
		err = fmt.Errorf("%w: this is the id of a conversation", ErrNotFound)
	}
	var body []byte
	if err == nil {
		body, err = s.conversations.Raw(ctx, c.exchange, r.FormValue("part"))
	}
	switch {
	case errors.Is(err, ErrNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case len(body) > rawBytes:
		http.Error(w, fmt.Sprintf("this is over %d MiB; use llmtap show %s --format body", rawBytes>>20, argument(c.exchange)), http.StatusRequestEntityTooLarge)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if json.Valid(body) {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = w.Write(body) // the client has left
	}
}

// A requestHead is the answer to "what is wrong with this request?".
type requestHead struct {
	*Exchange
	Broken   *Finding // that explains the failure, or nil
	Others   int      // findings besides Broken
	Class    string   // of the verdict
	Sentence string
	When     Time
	Jump     string // URL of the broken message
	Show     string // command
	Lint     string
}

// Timeline returns the URL of the calls and tools of the conversation in the day before and after the request.
func (h requestHead) Timeline(v *View) string {
	if h.Conversation == "" {
		return ""
	}
	const day = 24 * time.Hour
	return v.With(timelinePath, "conversation", h.Conversation, "from", h.StartedAt.Add(-day).UTC().Format(time.RFC3339), "to", h.StartedAt.Add(day).UTC().Format(time.RFC3339), "range", "")
}

func (c *chosen) head(ctx context.Context) (any, error) {
	x, err := c.load(ctx)
	if err != nil {
		return nil, err
	}
	h := requestHead{Exchange: x, Broken: x.broken(), When: c.view.At(x.StartedAt), Class: "critical"}
	for i := range x.Findings {
		if x.Findings[i].Since == "" && &x.Findings[i] != h.Broken {
			h.Others++
		}
	}
	switch {
	case h.Broken != nil:
		h.Jump = "#broken"
		if first := firstMessage(c.view.Get("first"), h.Broken, len(x.Messages)); h.Broken.Message >= 0 && (h.Broken.Message < first || h.Broken.Message >= first+shownMessages) {
			h.Jump = c.view.With("/exchange/"+url.PathEscape(x.ID), "first", "") + h.Jump
		}
		what := "the request"
		if h.Broken.Message >= 0 {
			what = fmt.Sprintf("message %d", h.Broken.Message)
		}
		h.Sentence = capital(what) + " is broken: " + h.Broken.Verdict()
		switch {
		case x.Status >= 400:
			h.Sentence = fmt.Sprintf("The provider rejected %s with status %d", what, x.Status)
		case !x.Failed():
			h.Class = "warning"
		}
	case x.Status == 0:
		h.Sentence = "The provider did not answer"
	case x.Failed():
		h.Sentence = fmt.Sprintf("The call failed with status %d", x.Status)
	case h.Others > 0:
		h.Class, h.Sentence = "warning", "The provider answered, but "+quantity.Plural(h.Others, "finding")+" may hurt"
	default:
		h.Class, h.Sentence = "ok", "No finding: the provider answered"
	}
	h.Show = "llmtap show " + argument(x.ID)
	h.Lint = h.Show + " --format body | llmtap lint -"
	return h, nil
}

// broken returns the finding that explains best why the request fails, or nil. A repeated request has no findings of its own:
// these were reported with the first one.
func (x *Exchange) broken() *Finding {
	for _, match := range []func(f *Finding) bool{
		func(f *Finding) bool {
			return f.Breaks() && f.Since == "" && f.RootCause != "" && f.RootCause == x.RootCause
		},
		func(f *Finding) bool { return f.Breaks() && f.Since == "" },
		func(f *Finding) bool { return f.Breaks() && x.Failed() && f.Rule == x.Cause },
	} {
		for i := range x.Findings {
			if match(&x.Findings[i]) {
				return &x.Findings[i]
			}
		}
	}
	return nil
}

// argument returns s as an argument for a shell.
func argument(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// exchangeURL returns the URL of the page of a request.
func (v *View) exchangeURL(id string) string { return v.With("/exchange/" + url.PathEscape(id)) }

// A requestList is the list of the requests of a conversation.
type requestList struct {
	Conversation     string
	URL              string // of the conversation's page
	Count, Number    int    // Number of the request shown, or 0
	More             bool
	Before, After    int // requests that are not listed
	Previous, Next   string
	Earliest, Latest string   // URLs of pages that list them
	Groups           []repeat // in order
}

// A repeat is a request with those after it that send the same messages.
type repeat struct {
	requestLine
	Retries []requestLine
	Open    bool // the request shown is a retry

	FailedRetries int
}

// A requestLine is a request in the list.
type requestLine struct {
	Request
	URL     string
	Time    Time
	Current bool
}

func (c *chosen) requests(ctx context.Context) (any, error) {
	all, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	v := c.view
	out := requestList{Conversation: all.Conversation, URL: v.With("/conversation/" + url.PathEscape(all.Conversation)), Count: all.Count, More: all.More}
	for i, r := range all.List {
		line := requestLine{r, v.exchangeURL(r.ID), v.At(r.StartedAt), i == all.At}
		switch i {
		case all.At - 1:
			out.Previous = line.URL
		case all.At:
			out.Number = r.Number
		case all.At + 1:
			out.Next = line.URL
		}
		if n := len(out.Groups); r.Repeats && n > 0 {
			g := &out.Groups[n-1]
			g.Retries = append(g.Retries, line)
			g.Open = g.Open || line.Current
			if r.Failed() {
				g.FailedRetries++
			}
			continue
		}
		out.Groups = append(out.Groups, repeat{requestLine: line})
	}
	if n := len(all.List); n > 0 {
		out.Before, out.After = all.List[0].Number-1, all.Count-all.List[n-1].Number
		out.Earliest, out.Latest = v.exchangeURL(all.List[0].ID), v.exchangeURL(all.List[n-1].ID)
	}
	return out, nil
}

// A messageList is the messages of a request, and the answer.
type messageList struct {
	*Exchange
	Whole    []Finding // of the request as a whole
	Earlier  []Finding // of earlier requests
	Lines    []messageLine
	Reply    []messageLine
	First    int // index of the first message on the page
	Total    int
	Previous string // URL of the page with the messages before
	Next     string
	Marked   bool   // a message on the page is the broken one
	Texts    bool   // texts are shown
	Toggle   string // URL with or without texts
	Raw      string // URL of raw parts, without the part
}

// A messageLine is a message on the page.
type messageLine struct {
	Message
	Raw      string // URL
	Sent     bool   // in the request, rather than in the answer
	Up, Down bool   // a line connects it with messages above or below
	Broken   bool   // its first finding is the one that explains the failure
	Findings []Finding
	Contents []contentLine
}

// A contentLine is a part of a message on the page.
type contentLine struct {
	Content
	Partner string // URL of the partner's message
	With    int    // its index
	Text    cutText
}

// A cutText is a text whose rest is unfolded on demand.
type cutText struct {
	Start string
	Whole string // empty if Start is the whole text, or if it is too long for a page
	Size  int    // characters
	Raw   string // URL of the whole text, if it is too long for a page
}

func (c *chosen) messages(ctx context.Context) (any, error) {
	x, err := c.load(ctx)
	if err != nil {
		return nil, err
	}
	v := c.view
	self, raw := "/exchange/"+url.PathEscape(x.ID), "/exchange/"+url.PathEscape(x.ID)+"/raw?part="
	out := messageList{Exchange: x, Total: len(x.Messages), Texts: v.Get("texts") != "no", Raw: raw}
	link := func(first int, texts bool) string {
		show := ""
		if !texts {
			show = "no"
		}
		return v.With(self, "first", strconv.Itoa(first), "texts", show)
	}
	broken := x.broken()
	out.First = firstMessage(v.Get("first"), broken, out.Total)
	last := min(out.First+shownMessages, out.Total)
	out.Toggle = link(out.First, !out.Texts)
	if out.First > 0 {
		out.Previous = link(max(out.First-shownMessages, 0), out.Texts)
	}
	if last < out.Total {
		out.Next = link(last, out.Texts)
	}
	found := map[int][]Finding{}
	for i := range x.Findings {
		f := x.Findings[i]
		switch {
		case f.Since != "" && &x.Findings[i] != broken:
			out.Earlier = append(out.Earlier, f)
		case f.Message < 0 || f.Message >= out.Total:
			out.Whole = append(out.Whole, f)
		default:
			found[f.Message] = append(found[f.Message], f)
		}
	}
	up, down := connectors(x.Messages)
	shown := map[string]bool{}
	once(out.Whole, shown)
	budget := wholeTexts
	line := func(m Message, part string, sent bool) messageLine {
		l := messageLine{Message: m, Raw: raw + part, Sent: sent}
		for _, p := range m.Parts {
			k := contentLine{Content: p}
			if out.Texts {
				k.Text = cut(p.Text, l.Raw, &budget)
			}
			if p.Partner >= 0 {
				k.With, k.Partner = p.Partner, "#m"+strconv.Itoa(p.Partner)
				if p.Partner < out.First || p.Partner >= last {
					k.Partner = link(max(p.Partner-shownMessages/2, 0), out.Texts) + k.Partner
				}
			}
			l.Contents = append(l.Contents, k)
		}
		return l
	}
	for _, m := range x.Messages[out.First:last] {
		l := line(m, strconv.Itoa(m.Index), true)
		l.Up, l.Down, l.Findings = up[m.Index], down[m.Index], found[m.Index]
		once(l.Findings, shown)
		l.Broken = broken != nil && broken.Message == m.Index
		out.Marked = out.Marked || l.Broken
		out.Lines = append(out.Lines, l)
	}
	for _, m := range x.Answer {
		out.Reply = append(out.Reply, line(m, "answer", false))
	}
	return out, nil
}

// once replaces what is shown already.
func once(all []Finding, shown map[string]bool) {
	for i := range all {
		for _, lines := range []*[]DiffLine{&all[i].Diff, &all[i].Pairs} {
			key := fmt.Sprint(*lines)
			if len(*lines) > 0 && shown[key] {
				*lines = []DiffLine{{Text: "as above"}}
			}
			shown[key] = true
		}
	}
}

// firstMessage returns the index of the first message on a page: as in the URL, else so that the broken message, or else the
// last one, is on the page.
func firstMessage(param string, broken *Finding, total int) int {
	last := max(total-shownMessages, 0)
	if n, err := strconv.Atoi(param); err == nil {
		return min(max(n, 0), max(total-1, 0))
	}
	if broken != nil && broken.Message >= 0 {
		return min(max(broken.Message-shownMessages/2, 0), last)
	}
	return last
}

// connectors returns the messages that a line between a call and its reply enters from above, and those that it leaves below.
func connectors(all []Message) (up, down []bool) {
	up, down = make([]bool, len(all)+1), make([]bool, len(all))
	begins := make([]int, len(all)+1) // lines that begin at a message, less those that end there
	for i := range all {
		for _, p := range all[i].Parts {
			if p.Kind == "reply" && p.Partner >= 0 && p.Partner < i {
				begins[p.Partner]++
				begins[i]--
			}
		}
	}
	lines := 0
	for i := range all {
		lines += begins[i]
		down[i], up[i+1] = lines > 0, lines > 0
	}
	return up, down
}

// cut returns a text whose rest is unfolded on demand. The whole text is taken from the budget of the page.
func cut(text, raw string, budget *int) cutText {
	t := cutText{Start: text, Size: utf8.RuneCountInString(text)}
	at := len(text)
	for i, lines, n := 0, 0, 0; i < len(text); n++ {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == '\n' {
			lines++
		}
		if n == startText || lines == startLines {
			at = i
			break
		}
		i += size
	}
	if at+80 >= len(text) { // the button would be as long as the rest
		return t
	}
	t.Start = strings.TrimRight(text[:at], " \n\t")
	if t.Size > wholeText || len(text) > *budget {
		t.Raw = raw
		return t
	}
	*budget -= len(text)
	t.Whole = text
	return t
}
