package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// An Action is a kind of what the audit records.
type Action string

// The actions. A route without one is recorded only if its handler calls Note.
const (
	Unaudited     Action = ""
	ReadTexts     Action = "read_texts" // bodies of messages, or excerpts
	RunSQL        Action = "run_sql"    // a statement of their own
	Export        Action = "export"     // of rows, as a file
	ReadAudit     Action = "read_audit"
	ChangeAlert   Action = "change_alert"
	ChangeSilence Action = "change_silence"
	ChangeProblem Action = "change_problem"
	ChangeView    Action = "change_view"
	ChangeToken   Action = "change_token"
	LogIn         Action = "log_in"
	LogOut        Action = "log_out"
	Erase         Action = "erase"
	Configure     Action = "configure" // a process has read its configuration, or rule files
)

// Actions lists all actions.
var Actions = []Action{ReadTexts, RunSQL, Export, ReadAudit, ChangeAlert, ChangeSilence, ChangeProblem, ChangeView, ChangeToken, LogIn, LogOut, Erase, Configure}

// Outcomes of a Record.
const (
	Started = "started" // what came of it is in a later record, unless the process has ended
	Done    = "done"
	Refused = "refused" // not allowed
	Failed  = "failed"
)

// Outcomes lists all outcomes.
var Outcomes = []string{Started, Done, Refused, Failed}

// Anyone is the person of a Record if nobody logs in.
const Anyone = "anyone"

const (
	maxDetail = 4 << 10 // bytes of Record.Detail
	maxField  = 512     // bytes of its other texts
	maxNotes  = 20      // of one request
	// repeatTime is the time in which reading the same texts, or running the same statement, again is not recorded again: pages refresh
	// themselves, and llmtap tail polls.
	repeatTime = 10 * time.Minute
	// maxRecent bounds the reads that are remembered for that.
	maxRecent = 10_000
)

// A Record is what somebody did. It never contains texts of bodies.
type Record struct {
	ID       string
	At       time.Time
	Person   string // or Anyone
	Verified bool   // the person has logged in, or has a token of their own; otherwise the name is what the client says
	Subject  string // as in Person
	Role     Role
	Action   Action
	Target   string // id of a conversation, call, alert, silence, problem or token
	Detail   string // the statement, cut at 4 KiB, or what was done
	Route    string // method and pattern, or a command
	Via      string // pages, api, mcp, command, collector
	Address  string // host of the client, and for whom it says that it asks
	Outcome  string
	Status   int // of HTTP; 0 if it was none
}

// Complete sets the id and the time of r, and cuts its texts.
func (r Record) Complete(now time.Time) Record {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	r.ID, r.At, r.Detail = hex.EncodeToString(id[:]), now.UTC(), cut(r.Detail, maxDetail)
	for _, text := range []*string{&r.Person, &r.Subject, &r.Target, &r.Route, &r.Address} {
		*text = cut(*text, maxField)
	}
	return r
}

// cut returns the first n bytes of text as valid UTF-8.
func cut(text string, n int) string {
	if len(text) > n {
		text = text[:n] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// notes are what handlers add to the records of a request.
type notes struct {
	mu    sync.Mutex // guards the rest: sections of a page are loaded concurrently
	says  string
	entry Person // who has logged in with the request
	fails bool
	list  []Record
}

type notesKey struct{}

// Note records an action of the request with ctx instead of that of its route. Without a Mux before it, it has no effect.
func Note(ctx context.Context, action Action, target, detail string) {
	n, ok := ctx.Value(notesKey{}).(*notes)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.list) < maxNotes {
		n.list = append(n.list, Record{Action: action, Target: target, Detail: detail})
	}
}

// Says sets the name that the client of the request with ctx states, which counts if nobody has logged in.
func Says(ctx context.Context, name string) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok && name != "" {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.says = name
	}
}

// Fail says that the request with ctx fails, whose answer has a status of success nevertheless.
func Fail(ctx context.Context) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.fails = true
	}
}

// loggedIn sets who has logged in with the request with ctx.
func loggedIn(ctx context.Context, p Person) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.entry = p
	}
}

// A recorder records the requests of a Mux.
type recorder struct {
	record func(Record)
	via    string

	mu     sync.Mutex
	recent map[Record]time.Time // reads, without what differs between two
}

// request returns r and w for a handler of a route, and the function that records what it did.
func (a *recorder) request(w http.ResponseWriter, r *http.Request, pattern string, action Action) (http.ResponseWriter, *http.Request, func()) {
	n := &notes{}
	r = r.WithContext(context.WithValue(r.Context(), notesKey{}, n))
	answer := &statusWriter{ResponseWriter: w}
	aborted := true
	end := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		list := n.list
		if len(list) == 0 && action != Unaudited {
			_, path, ok := strings.Cut(pattern, " ")
			if !ok {
				path = pattern
			}
			list = []Record{{Action: action, Target: cmp.Or(r.PathValue("id"), strings.TrimPrefix(r.URL.Path, path))}}
		}
		for _, x := range list {
			a.add(a.fill(x, r, pattern, n, answer.status, aborted))
		}
	}
	return answer, r, func() {
		if p := recover(); p != nil {
			end()
			panic(p)
		}
		aborted = false
		end()
	}
}

// fill returns x, which has an action, with the rest.
func (a *recorder) fill(x Record, r *http.Request, pattern string, n *notes, status int, aborted bool) Record {
	p := From(r.Context())
	if n.entry.Role > Public {
		p = n.entry
	}
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = r.Method, pattern
	}
	x.Person, x.Verified = cmp.Or(p.Name, n.says, Anyone), p.Name != ""
	x.Subject, x.Role, x.Via = p.Subject, p.Role, a.via
	if path == "/mcp" {
		x.Via = "mcp"
	}
	x.Route = method + " " + path
	x.Address, _, _ = net.SplitHostPort(r.RemoteAddr)
	if origin := r.Header.Get("X-Forwarded-For"); origin != "" {
		x.Address += " for " + origin
	}
	x.Status = cmp.Or(status, http.StatusOK)
	switch {
	case x.Status == http.StatusUnauthorized || x.Status == http.StatusForbidden:
		x.Outcome = Refused
	case x.Status >= http.StatusBadRequest || aborted || n.fails:
		x.Outcome = Failed
	default:
		x.Outcome = Done
	}
	return x
}

func (a *recorder) add(x Record) {
	now := time.Now()
	if x.Action == ReadTexts || x.Action == RunSQL {
		a.mu.Lock()
		last, ok := a.recent[x]
		again := ok && now.Sub(last) < repeatTime
		if !again {
			if len(a.recent) >= maxRecent {
				clear(a.recent)
			}
			a.recent[x] = now
		}
		a.mu.Unlock()
		if again {
			return
		}
	}
	a.record(x.Complete(now))
}

// A statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter

	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Flush implements http.Flusher.
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// MaxBytesReader is http.MaxBytesReader for the body of a request whose answer goes to w, also behind a Mux: only for its own writers does
// net/http keep the connection open until the client has read the answer.
func MaxBytesReader(w http.ResponseWriter, body io.ReadCloser, n int64) io.ReadCloser {
	for {
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return http.MaxBytesReader(w, body, n)
		}
		w = inner.Unwrap()
	}
}
