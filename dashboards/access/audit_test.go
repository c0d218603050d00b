package access

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Requests are recorded as their route says, or as their handler says.
func TestRecord(t *testing.T) {
	var got []Record
	ann := Person{Name: "Ann", Subject: "s1", Role: Responder}
	who, known := ann, true
	m := NewMux(func(*http.Request) (Person, bool) { return who, known }, func(w http.ResponseWriter, _ *http.Request, needs Role) {
		w.WriteHeader(map[bool]int{true: http.StatusForbidden, false: http.StatusUnauthorized}[known])
	}, "pages", Hooks{Record: func(r Record) { got = append(got, r) }})
	m.HandleFunc("GET /conversation/{id}", Viewer, ReadTexts, func(http.ResponseWriter, *http.Request) {})
	m.HandleFunc("GET /plain", Viewer, Unaudited, func(http.ResponseWriter, *http.Request) {})
	m.HandleFunc("POST /noted", Responder, ChangeView, func(w http.ResponseWriter, r *http.Request) {
		Says(r.Context(), "Bob")
		Note(r.Context(), RunSQL, "", strings.Repeat("ü", maxDetail))
		Note(r.Context(), Export, "calls", "")
		w.WriteHeader(http.StatusBadRequest)
	})
	m.HandleFunc("POST /admin/", Admin, ChangeToken, func(http.ResponseWriter, *http.Request) {})
	m.HandleFunc("POST /login", Public, LogIn, func(w http.ResponseWriter, r *http.Request) { loggedIn(r.Context(), ann) })
	m.HandleFunc("GET /abort", Viewer, Export, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	ask := func(method, path string) []Record {
		got = nil
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		func() {
			defer func() { _ = recover() }() // of /abort
			m.ServeHTTP(httptest.NewRecorder(), r)
		}()
		return got
	}

	one := ask("GET", "/conversation/c1")[0]
	if one.ID == "" || one.At.IsZero() {
		t.Errorf("%+v", one)
	}
	one.ID, one.At = "", got[0].At
	must.Equal(t, one, Record{
		At: one.At, Person: "Ann", Verified: true, Subject: "s1", Role: Responder, Action: ReadTexts, Target: "c1", Route: "GET /conversation/{id}", Via: "pages",
		Address: "192.0.2.1 for 203.0.113.9", Outcome: Done, Status: 200,
	}, "a read")
	must.Equal(t, len(ask("GET", "/conversation/c1")), 0, "the same texts again")
	must.Equal(t, len(ask("GET", "/conversation/c2")), 1, "other texts")
	must.Equal(t, len(ask("GET", "/plain")), 0, "no action")
	two := ask("POST", "/noted")
	must.Equal(t, len(two), 2, "noted actions")
	must.Equal(t, two[0].Action, RunSQL, "first")
	must.Equal(t, two[0].Person, "Ann", "the name of the session counts")
	must.Equal(t, two[0].Outcome, Failed, "outcome")
	must.Equal(t, len(two[0].Detail), maxDetail+len("…"), "cut")
	must.Equal(t, two[1].Target, "calls", "second")
	refused := ask("POST", "/admin/x")[0]
	must.Equal(t, refused.Outcome, Refused, "without the role")
	must.Equal(t, refused.Target, "x", "rest of the path")
	must.Equal(t, ask("GET", "/abort")[0].Outcome, Failed, "aborted")

	who.Name, who.Subject = "", "" // of a token of the configuration
	two = ask("POST", "/noted")
	must.Equal(t, two[0].Person, "Bob", "what the client says")
	must.Equal(t, two[0].Verified, false, "it is not verified")
	must.Equal(t, ask("GET", "/conversation/c1")[0].Person, Anyone, "nobody has logged in")
	who, known = Person{}, false
	must.Equal(t, len(ask("POST", "/admin/x")), 0, "somebody unknown")
	in := ask("POST", "/login")[0]
	must.Equal(t, in.Person+" "+in.Role.String(), "Ann responder", "who has logged in")
}

// A client that is still sending a body that is too long gets the answer, and no reset.
func TestMaxBytesReader(t *testing.T) {
	m := NewMux(func(*http.Request) (Person, bool) { return Person{Role: Viewer}, true }, nil, "api", Hooks{Record: func(Record) {}})
	m.HandleFunc("POST /", Viewer, RunSQL, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(MaxBytesReader(w, r.Body, 1000))
		http.Error(w, fmt.Sprint(err), http.StatusRequestEntityTooLarge)
	})
	s := httptest.NewServer(m)
	defer s.Close()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // else net/http waits by itself
	for range 20 {
		res := must.Get(client.Post(s.URL, "text/plain", strings.NewReader(strings.Repeat("x", 4<<20))))(t)
		must.Equal(t, res.StatusCode, http.StatusRequestEntityTooLarge, "status")
		must.Do(t, res.Body.Close())
	}
}
