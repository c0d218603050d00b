package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	searchRange = "7d" // default time range of what cannot be found by an index
	// minPrefix is the minimum length of the beginning of an id, as in llmtap show.
	minPrefix = 8
	// redirectWithin is the time within which a unique id leads to its page. After that, the page of the search shows it.
	redirectWithin = 3 * time.Second
)

// A hit is what a search found: a row of the statements search_*.sql.
type hit struct {
	Kind, ID, Exchange, Conversation, Service, Stage, About string
	Calls, Failed                                           int64
	Began, Ended                                            Time
}

// URL returns the page of h. A user has none.
func (h hit) URL() string {
	switch {
	case h.Kind == "alert":
		return idURL("alert", h.ID)
	case h.Kind == "conversation" || h.Kind == "user" || h.Kind == "run" && h.Conversation != "":
		return idURL("conversation", h.Conversation)
	}
	return idURL("exchange", h.Exchange)
}

// idPages are the pages of ids by kind.
var idPages = map[string]string{"alert": "/incident/", "conversation": "/conversation/", "exchange": "/exchange/"}

// idURL returns the page of an id, or "" if there is no id.
func idURL(kind, id string) string {
	if id == "" {
		return ""
	}
	return idPages[kind] + url.PathEscape(id)
}

// A searchPage finds ids and messages.
type searchPage struct {
	*site
	store
}

// A lookup is a running statement of a search.
type lookup struct {
	done chan struct{} // closed when hits and err are set
	hits []hit
	err  error
}

// lookUp starts a statement whose parameter is id.
func (s searchPage) lookUp(ctx context.Context, v *View, name, id string) *lookup {
	l := &lookup{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		q, err := Statement(name)
		if l.err = err; err != nil {
			return
		}
		var rows []stored.Row
		if rows, l.err = s.query(ctx, name, valuesOf(q, v, "id", id), v.Now); l.err != nil {
			return
		}
		for _, r := range rows {
			l.hits = append(l.hits, hit{
				r.Text("kind"), r.Text("id"), r.Text("exchange"), r.Text("conversation"), r.Text("of_service"), r.Text("of_stage"), r.Text("about"),
				r.Int64("calls"), r.Int64("failed_calls"), v.At(r.Time("began")), v.At(r.Time("ended")),
			})
		}
	}()
	return l
}

// wait returns the result of l.
func (l *lookup) wait(ctx context.Context) ([]hit, error) {
	select {
	case <-l.done:
		return l.hits, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ServeHTTP serves the search: by id in all time, by the beginning of an id, and by text within the time range. The id of one
// exchange, conversation, call and so on leads to its page.
func (s searchPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.pageSince(r, "Search", "/search", searchRange)
	p.Still = true
	text := strings.TrimSpace(p.Get("q"))
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "")
	}
	if text == "" {
		p.Static = true
		s.serve(w, r, p, section{id: "help", template: "search-help"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), sectionTimeout)
	defer cancel()
	ids := s.lookUp(ctx, p.View, "search_ids", text)
	all := []*lookup{ids}
	refresh := r.Header.Get(fragmentHeader) != ""
	// leads reports whether the answer leads to the page of the only id.
	leads := func() bool {
		target := await(s.site, w, r, p, func() string { return uniqueTarget(ctx, all) })
		if target == "" || refresh {
			return false
		}
		s.redirect(w, r, p, target)
		return true
	}
	// The other lookups read far more, so they would slow down the first one, which mostly suffices.
	if leads() {
		return
	}
	if !strings.ContainsAny(text, " \t\n") { // no id contains a space
		all = append(all, s.lookUp(ctx, p.View, "search_provider_ids", text))
		if utf8.RuneCountInString(text) >= minPrefix {
			all = append(all, s.lookUp(ctx, p.View, "search_prefixes", text))
		}
	}
	if leads() {
		return
	}
	s.serve(w, r, p,
		section{id: "ids", template: "search-ids", title: "By id", load: func(ctx context.Context) (any, error) { return found(ctx, p.View, text, all) }},
		section{id: "text", template: "search-text", title: "In messages", load: func(ctx context.Context) (any, error) { return s.inMessages(ctx, p.View, text) }},
	)
}

// uniqueTarget returns the page of the only id that was found within redirectWithin, or "". An exact id is preferred to the
// beginning of an id.
func uniqueTarget(ctx context.Context, all []*lookup) string {
	ctx, cancel := context.WithTimeout(ctx, redirectWithin)
	defer cancel()
	for _, l := range all {
		hits, err := l.wait(ctx)
		if err != nil {
			return ""
		}
		target := ""
		for i, h := range hits {
			if h.Kind == "user" || i > 0 && h.URL() != target {
				return ""
			}
			target = h.URL()
		}
		if target != "" {
			return target
		}
	}
	return ""
}

// searchHits are the hits by kind.
type searchHits struct {
	Text  string
	Kinds []searchKind
	Since Time   // what has no index was searched from here
	IsID  bool   // everything was searched, also the beginnings of ids
	Short bool   // too short for the beginning of an id
	Err   string // why a part of the search has no answer
}

// A searchKind are the hits of one kind.
type searchKind struct {
	Name string
	Hits []hit
}

// Heading returns for example "2 conversations".
func (k searchKind) Heading() string {
	if k.Name == "user" {
		return "User, newest conversations"
	}
	return quantity.Plural(len(k.Hits), k.Name)
}

// found returns the hits of all lookups. The first one is the search by whole ids; without one of the others, its hits are still
// useful.
func found(ctx context.Context, v *View, text string, all []*lookup) (*searchHits, error) {
	out := &searchHits{Text: text, Since: v.At(v.From), IsID: len(all) > 1, Short: len(all) == 2}
	seen := map[string]bool{}
	for i, l := range all {
		hits, err := l.wait(ctx)
		switch {
		case err != nil && i == 0:
			return nil, err
		case errors.Is(err, context.DeadlineExceeded):
			out.Err = "Not everything was searched within " + quantity.Span(sectionTimeout) + ": choose a shorter time range."
		case err != nil:
			out.Err = "Not everything was searched: " + err.Error()
		}
		for _, h := range hits {
			key := h.Kind + " " + h.ID + " " + h.URL()
			if seen[key] {
				continue // by its id, and again by the beginning of its id
			}
			seen[key] = true
			i := slices.IndexFunc(out.Kinds, func(k searchKind) bool { return k.Name == h.Kind })
			if i < 0 {
				i = len(out.Kinds)
				out.Kinds = append(out.Kinds, searchKind{Name: h.Kind})
			}
			out.Kinds[i].Hits = append(out.Kinds[i].Hits, h)
		}
	}
	return out, nil
}

// textHits are the messages that contain a text.
type textHits struct {
	Text    string
	Count   int
	Groups  []textGroup // the newest first
	More    bool
	Empty   string // why there is nothing
	Sampled string // services of which only a part is searched
}

// A textGroup are the messages of one conversation.
type textGroup struct {
	ID, URL, Service string
	Hits             []textHit
}

// A textHit is one message.
type textHit struct {
	Exchange, Role       string
	Before, Match, After string // excerpt
	At                   Time
}

// inMessages finds messages by the stored query messages_with.
func (s searchPage) inMessages(ctx context.Context, v *View, text string) (*textHits, error) {
	access.Note(ctx, access.ReadTexts, "", "search "+text)
	q, err := queries.Get("messages_with")
	if err != nil {
		return nil, err
	}
	t, err := s.run(ctx, q, valuesOf(q, v, "text", text), v.Now)
	if err != nil {
		return nil, err
	}
	out := &textHits{Text: text}
	for _, r := range rowsOf(t) {
		h := textHit{Exchange: idURL("exchange", r.Text("exchange_id")), Role: r.Text("role"), At: v.At(r.Time("seen_at"))}
		h.Before, h.Match, h.After = splitMatch(r.Text("excerpt"), text)
		g := textGroup{ID: r.Text("conversation_id"), URL: idURL("conversation", r.Text("conversation_id")), Service: r.Text("service")}
		i := slices.IndexFunc(out.Groups, func(other textGroup) bool { return other.ID == g.ID && other.Service == g.Service })
		if i < 0 {
			i, out.Groups = len(out.Groups), append(out.Groups, g)
		}
		out.Groups[i].Hits = append(out.Groups[i].Hits, h)
		out.Count++
	}
	out.More = out.Count == 50 // the default limit of the query
	if q, err = Statement("dropped_texts"); err != nil {
		return nil, err
	}
	sampled, err := s.query(ctx, "dropped_texts", valuesOf(q, v), v.Now)
	if err != nil {
		return nil, err
	}
	var services []string
	for _, r := range sampled {
		services = append(services, r.Text("service"))
	}
	out.Sampled = strings.Join(services, ", ")
	if out.Count == 0 {
		out.Empty, err = s.whyEmpty(ctx, v, true)
	}
	return out, err
}

// splitMatch splits an excerpt of JSON at the text that was searched. If the text is within a string, the excerpt is that string, as
// people read it.
func splitMatch(excerpt, text string) (before, match, after string) {
	lower := strings.ToLower(excerpt)
	i := strings.Index(lower, strings.ToLower(text))
	if i < 0 || len(lower) != len(excerpt) { // a letter whose two cases differ in length
		return excerpt, "", ""
	}
	before, match, after = excerpt[:i], excerpt[i:i+len(text)], excerpt[i+len(text):]
	if strings.Contains(match, `"`) {
		return before, match, after
	}
	begin, cut := "", ""
	if j := lastQuote(before); j >= 0 {
		before = before[j+1:]
	} else if rest, found := strings.CutPrefix(before, "…"); found {
		begin, before = "…", rest
	}
	if j := firstQuote(after); j >= 0 {
		after = after[:j]
	} else {
		cut = "…"
	}
	return begin + unescaped(before), unescaped(match), unescaped(after) + cut
}

// firstQuote returns the index of the first quotation mark without a backslash, or -1.
func firstQuote(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// lastQuote is firstQuote for the last one.
func lastQuote(s string) int {
	last := -1
	for i := firstQuote(s); i >= 0; i = firstQuote(s[last+1:]) {
		last += i + 1
	}
	return last
}

// unescaped returns a part of a JSON string as text. A part that begins or ends within an escape sequence is returned as it is.
func unescaped(s string) string {
	var text string
	if json.Unmarshal([]byte(`"`+s+`"`), &text) != nil {
		return s
	}
	return text
}
