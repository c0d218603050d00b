package web

import (
	"bytes"
	"context"
	"errors"
	"html/template"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// never is the answer of a source that gives none until stop is closed, whatever becomes of the request.
func never[T any](stop chan struct{}) (none T, err error) {
	<-stop
	return none, ErrUnavailable
}

// Sources that answer nothing.
type (
	noIncidents struct {
		Incidents
		stop chan struct{}
	}
	noProblems struct {
		Problems
		stop chan struct{}
	}
	noViews struct {
		Views
		stop chan struct{}
	}
	noControls struct {
		Controls
		stop chan struct{}
	}
	noConversations struct {
		Conversations
		stop chan struct{}
	}
)

func (s noIncidents) Incident(context.Context, string) (*Incident, error) {
	return never[*Incident](s.stop)
}

func (s noProblems) All(context.Context) ([]Problem, error) { return never[[]Problem](s.stop) }

func (s noProblems) Problem(context.Context, string) (*Problem, error) {
	return never[*Problem](s.stop)
}

func (s noViews) All(context.Context) ([]SavedView, error)       { return never[[]SavedView](s.stop) }
func (s noControls) Rules(context.Context) ([]Rule, error)       { return never[[]Rule](s.stop) }
func (s noControls) Silences(context.Context) ([]Silence, error) { return never[[]Silence](s.stop) }
func (s noControls) Elsewhere() (text string, only bool)         { return "", false } // what is configured
func (s noControls) Backtest(context.Context, string, time.Time, time.Time) (*Backtest, error) {
	return never[*Backtest](s.stop)
}

func (s noConversations) Find(context.Context, string) (exchange, conversation string, err error) {
	_, err = never[string](s.stop)
	return "", "", err
}

// The frame of each page arrives although no source answers.
func TestFirstFrame(t *testing.T) {
	stop := make(chan struct{})
	query := func(context.Context, string, map[string]string) (*Table, error) { return never[*Table](stop) }
	h := handler(t, Options{
		ClickHouse: query, Explorer: query, Incidents: noIncidents{fakeIncidents{}, stop}, Problems: noProblems{stop: stop}, Views: noViews{stop: stop},
		Controls: noControls{stop: stop}, Conversations: noConversations{stop: stop},
		Firing: func(context.Context) ([]Alert, error) { return never[[]Alert](stop) },
		Tallies: func(context.Context, string, time.Time, time.Time, time.Duration) ([]Series, error) {
			return never[[]Series](stop)
		},
		Health: func(context.Context) []Part {
			<-stop
			return nil
		},
		Ways:       func() []Way { return nil },
		flushAfter: time.Millisecond,
	})
	server := httptest.NewServer(h)
	defer server.Close()
	defer close(stop) // before the server waits for its requests
	examples := map[string][]string{
		"/{$}":               {"/", "/?service=checkout"},
		"/explore/{query}":   {"/explore/queries", "/explore/causes", "/explore/sql?sql=SELECT+1"},
		"/search":            {"/search", "/search?q=e1"},
		"/alerts/backtest":   {"/alerts/backtest?rule=StageFailureRate"},
		"/traffic/{kind}":    {"/traffic/calls", "/traffic/calls?sort=cost", "/traffic/conversations", "/traffic/runs", "/traffic/users"},
		"/timeline":          {"/timeline?conversation=c1", "/timeline?run=r1"},
		"/problem/{id}":      {"/problem/p1"},
		"/incident":          {"/incident?why=rate_limit&service=checkout"},
		"/incident/{id}":     {"/incident/a1"},
		"/conversation/{id}": {"/conversation/c1"},
		"/exchange/{id}":     {"/exchange/e1"},
		"/":                  {"/no/such/page"},
	}
	noPages := []string{"/suggest/{filter}", "/exchange/{id}/raw", "/live", "/static/"}
	routes := regexp.MustCompile(`mux\.Handle(?:Func)?\("GET ([^"]*)"`).FindAllStringSubmatch(string(must.Get(os.ReadFile("web.go"))(t)), -1)
	if len(routes) < len(examples) {
		t.Fatalf("%d routes in web.go", len(routes))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, r := range routes {
		route := r[1]
		if slices.Contains(noPages, route) {
			continue
		}
		paths, ok := examples[route]
		delete(examples, route)
		if !ok {
			paths = []string{map[bool]string{true: viewsPath, false: route}[route == ""]}
		}
		for _, path := range paths {
			req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil))(t)
			req.Header.Set("Accept", "text/html")
			resp, err := http.DefaultClient.Do(req)
			must.Do(t, err, path, route, "no frame")
			var got bytes.Buffer
			for buf := make([]byte, 4096); err == nil && !strings.Contains(got.String(), "</header>"); {
				var n int
				n, err = resp.Body.Read(buf)
				got.Write(buf[:n])
			}
			if err != nil && !errors.Is(err, io.EOF) || !strings.Contains(got.String(), "<header>") {
				t.Errorf("%s (%s): no frame: %v\n%s", path, route, err, got.String())
			}
			_ = resp.Body.Close()
		}
	}
	if len(examples) > 0 {
		t.Errorf("no routes: %v", slices.Sorted(maps.Keys(examples)))
	}
}

// A rendering takes until it is closed.
type rendering chan struct{}

// Wait is called by a template.
func (r rendering) Wait() string {
	<-r
	return "rendered"
}

// The frame of a page arrives before its sections are rendered.
func TestFrameBeforeRendering(t *testing.T) {
	templates := must.Get(template.New("").Funcs(functions).Funcs(template.FuncMap{"place": places("")}).ParseFS(templateFiles, "templates/*.html"))(t)
	must.Get(templates.New("slow").Parse("{{.Data.Wait}}"))(t)
	s := &site{templates: templates, sessions: newSessions(&Options{}), now: time.Now, flushAfter: time.Millisecond, logger: slog.New(slog.DiscardHandler)}
	slow := make(rendering)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, s.page(r, "Slow", "/"), section{id: "slow", template: "slow", load: func(context.Context) (any, error) { return slow, nil }})
	}))
	defer server.Close()
	resp := must.Get(http.Get(server.URL))(t)
	defer resp.Body.Close()
	var page []byte
	for buf := make([]byte, 1<<10); !bytes.Contains(page, []byte("still being read")); {
		n, err := resp.Body.Read(buf)
		page = append(page, buf[:n]...)
		must.Do(t, err)
	}
	close(slow)
	must.Contain(t, string(must.Get(io.ReadAll(resp.Body))(t)), "rendered", "the rest")
}
