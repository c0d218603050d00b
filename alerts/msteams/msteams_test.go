package msteams

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/thread"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// path is that of the webhook of a workflow, with its signature.
const (
	signature = "oU1G-QWi8zl9CbCaNKwtkglylwYi1qlTNaDxc2HNfGI"
	path      = "/workflows/0123456789abcdef/triggers/manual/paths/invoke?api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=" + signature
)

// workflow answers as the webhook of a workflow does: 202 without a body, before it runs.
type workflow struct {
	mu    sync.Mutex
	posts []post
	texts []string
	fault func(w http.ResponseWriter) bool // nil: none
}

func (f *workflow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if f.fault != nil && f.fault(w) {
		return
	}
	if r.URL.Query().Get("sig") != signature { // the answer names what it got, as some gateways do
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"code":"DirectApiInvalidAuthorizationKey","message":"The provided authorization key is not valid: `+r.URL.Query().Get("sig")+`"}}`)
		return
	}
	var p post
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.Type != "message" || len(p.Attachments) != 1 || p.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" ||
		!strings.Contains(string(body), `"contentUrl":null`) || r.Header.Get("Content-Type") != "application/json" || len(body) > 28_000 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.posts = append(f.posts, p)
	f.texts = append(f.texts, shown(p))
	w.WriteHeader(http.StatusAccepted)
}

// shown returns the text of a card, one block a line.
func shown(p post) string {
	var b strings.Builder
	for _, e := range p.Attachments[0].Content.Body {
		for _, r := range e.Inlines {
			b.WriteString(r.Text)
		}
		b.WriteString("\n")
	}
	for _, a := range p.Attachments[0].Content.Actions {
		b.WriteString("[" + a.Title + "] " + a.URL + "\n")
	}
	return b.String()
}

func start(t *testing.T, f *workflow, o alerts.NotifierOptions) alerts.Receiver {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	o.Access = alerts.Access{ExternalURL: "https://llmtap.example.com/", Host: "collector-1"}
	r := must.Get(Config{WebhookURL: srv.URL + path}.Receivers(o))(t)[0]
	must.Equal(t, r.Destination, strings.TrimPrefix(srv.URL, "http://"), "destination")
	return r
}

// An incident is four posts: it fires, is acknowledged, becomes critical and ends. Numbers and repetitions are none, and a restart repeats
// nothing.
func TestIncident(t *testing.T) {
	f, store := &workflow{}, &alertstest.Store{}
	srv := httptest.NewServer(f)
	defer srv.Close()
	for i, g := range alertstest.Steps() {
		r := must.Get(Config{WebhookURL: srv.URL + path}.Receivers(alerts.NotifierOptions{Store: store, Access: alerts.Access{ExternalURL: "https://llmtap.example.com/", Host: "collector-1"}}))(t)[0]
		for range 2 {
			must.Do(t, r.Notify(t.Context(), g))
			g.Alerts = append([]alerts.Alert(nil), g.Alerts...)
			g.Alerts[0].Evidence.Failed++
		}
		must.Equal(t, len(f.posts), i+1, "posts")
		must.Equal(t, f.posts[i].Attachments[0].Content.Body[0].Inlines[0].Color, []string{"warning", "warning", "attention", "good"}[i], "color")
		must.Equal(t, strings.Contains(f.texts[i], "About: checkout-agent/planner: assistant message saved without its tool_calls, first sent "), i > 0, "names the first post")
		must.Equal(t, strings.Contains(f.texts[i], "text of the user"), false, "quotes a conversation")
	}
	var all strings.Builder
	for _, text := range f.texts {
		for l := range strings.Lines(text) {
			if at, _, ok := strings.Cut(l, ", first sent "); ok {
				l = at + ", first sent …\n"
			}
			all.WriteString(l)
		}
		all.WriteString("====================\n")
	}
	alertstest.Golden(t, "posts.txt", all.String())
	card := must.Get(json.MarshalIndent(f.posts[0], "", "  "))(t)
	alertstest.Golden(t, "card.json", string(card)+"\n")
}

func TestFaults(t *testing.T) {
	f := &workflow{}
	var log strings.Builder
	client := alerts.NewClient()
	r := start(t, f, alerts.NotifierOptions{Client: client, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	hung := make(chan struct{})
	answer := func(status int, header ...string) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			if len(header) == 2 {
				w.Header().Set(header[0], header[1])
			}
			w.WriteHeader(status)
			return true
		}
	}
	set := func(fault func(http.ResponseWriter) bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fault = fault
	}
	for name, x := range map[string]struct {
		fault        func(http.ResponseWriter) bool
		after        time.Duration
		final, doubt bool
	}{
		"rate limit": {answer(http.StatusTooManyRequests, "Retry-After", "30"), 30 * time.Second, false, false},
		"down":       {answer(http.StatusBadGateway), 0, false, false},
		"deleted":    {answer(http.StatusNotFound), time.Minute, false, false},
		"bad card":   {answer(http.StatusBadRequest), 0, true, false},
		"hanging":    {func(http.ResponseWriter) bool { <-hung; return true }, 0, false, true},
	} {
		set(x.fault)
		if name == "hanging" {
			client.Timeout = 100 * time.Millisecond
		}
		err := r.Notify(t.Context(), alertstest.Incident())
		retry, ok := errors.AsType[*alerts.RetryError](err)
		if err == nil || ok == x.final || ok && (retry.After != x.after || !retry.Down || retry.Doubt != x.doubt) {
			t.Errorf("%s: %v %+v", name, err, retry)
		}
		if name == "hanging" {
			close(hung)
			client.Timeout = time.Minute
		}
	}
	set(nil)
	must.Do(t, r.Notify(t.Context(), alertstest.Incident()))
	must.Equal(t, len(f.posts), 1, "posts")

	n := r.Notifier.(*Notifier)
	n.url = strings.Replace(n.url, signature, "another-signature-which-is-secret", 1)
	err := n.Notify(t.Context(), alertstest.Steps()[1])
	must.Fail(t, err, "401 Unauthorized")
	must.Contain(t, err.Error(), "DirectApiInvalidAuthorizationKey")
	if strings.Contains(err.Error()+log.String(), "another-signature") {
		t.Errorf("a secret: %v\n%s", err, log.String())
	}
}

// No label becomes Markdown, a mention or a link, and the largest card is accepted.
func TestHostile(t *testing.T) {
	f := &workflow{}
	r := start(t, f, alerts.NotifierOptions{})
	g := alertstest.Incident()
	long := strings.Repeat("😀[x](https://evil.example.com) <at>all</at>\x01\n", 10_000)
	a := &g.Alerts[0]
	a.Labels["service"], a.Labels["stage"], a.Annotations["description"], a.Evidence.Differs, a.Unavailable = long, long, long, long, long
	a.Evidence.Shares[0].Fix, a.Evidence.Example.Summary, a.Evidence.Example.Evidence = long, long, long
	a.Hides = &alerts.Hidden{Alerts: 50}
	for range 5 {
		a.Hides.Worst = append(a.Hides.Worst, alerts.Part{Name: long, Labels: a.Labels})
	}
	for range 19 {
		b := *a
		b.Problem = ""
		g.Alerts = append(g.Alerts, b)
	}
	must.Do(t, r.Notify(t.Context(), g))
	for _, e := range f.posts[0].Attachments[0].Content.Body {
		must.Equal(t, e.Type, "RichTextBlock", "a block whose text is no Markdown")
		for _, x := range e.Inlines {
			if x.Select != nil && !strings.HasPrefix(x.Select.URL, "https://llmtap.example.com/") || strings.Contains(x.Text, "\x01") {
				t.Errorf("%+v", x)
			}
		}
	}
}

func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "url")
	must.Do(t, os.WriteFile(file, []byte("https://default.16.environment.api.powerplatform.com:443"+path+"\n"), 0o600))
	r := must.Get(Config{WebhookURLFile: file}.Receivers(alerts.NotifierOptions{}))(t)[0]
	must.Equal(t, r.Destination, "default.16.environment.api.powerplatform.com:443", "destination")
	for want, c := range map[string]Config{
		"both are set":               {WebhookURL: "https://h/" + signature, WebhookURLFile: file},
		"is not an http or https":    {WebhookURL: signature},
		"read webhook_url_file":      {WebhookURLFile: file + "x"},
		"webhook_url_file: is not a": {WebhookURLFile: os.Args[0]},
	} {
		_, err := c.Receivers(alerts.NotifierOptions{})
		if want == "webhook_url_file: is not a" {
			must.Do(t, os.WriteFile(file, []byte(signature), 0o600))
			_, err = Config{WebhookURLFile: file}.Receivers(alerts.NotifierOptions{})
			want += "n http"
		}
		must.Fail(t, err, want)
		if strings.Contains(err.Error(), signature) {
			t.Errorf("a secret: %v", err)
		}
	}
	must.Equal(t, len(must.Get(Config{}.Receivers(alerts.NotifierOptions{}))(t)), 0, "receivers without a configuration")
	must.Equal(t, r.Notifier.(*Notifier).Pace(), thread.Pace, "pace")
}
