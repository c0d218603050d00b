package slack

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A posted message.
type posted struct {
	Channel                  string
	TS, Thread, Text, Blocks string
	Metadata                 json.RawMessage
	Broadcast                bool
	Edits                    int
}

// fake is a Slack API on loopback.
type fake struct {
	t  *testing.T
	mu sync.Mutex
	// answer may replace the response of a call; stored reports whether the message is stored nevertheless.
	answer   func(method string, n int) (status int, header http.Header, body string, stored bool)
	calls    []string
	messages []posted
	hang     time.Duration // after storing a message, on the first post
	archived string        // channel to which nobody can post
}

func newSlack(t *testing.T) (*fake, Config) {
	t.Helper()
	f := &fake{t: t}
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return f, Config{Token: "xoxb-test", Channel: "#alerts", APIURL: srv.URL + "/api"}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	if ct := r.Header.Get("Content-Type"); method != "chat.getPermalink" && (r.Method != http.MethodPost || !strings.HasPrefix(ct, "application/x-www-form-urlencoded")) {
		f.t.Errorf("%s %s with %q, want a form", r.Method, method, ct)
	}
	if err := r.ParseForm(); err != nil {
		f.t.Error(err)
	}
	if r.PostForm.Get("token") != "xoxb-test" && r.Header.Get("Authorization") != "Bearer xoxb-test" {
		f.t.Error("no token")
	}
	f.mu.Lock()
	n := len(f.calls)
	f.calls = append(f.calls, method)
	if f.answer != nil {
		if status, header, body, stored := f.answer(method, n); status != 0 {
			if stored {
				f.handle(method, r)
			}
			hang := f.hang
			f.mu.Unlock()
			if hang > 0 {
				select {
				case <-r.Context().Done():
				case <-time.After(hang):
				}
			}
			maps.Copy(w.Header(), header)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return
		}
	}
	body := f.handle(method, r)
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, body)
}

func (f *fake) handle(method string, r *http.Request) string {
	p := r.PostForm
	switch method {
	case "chat.postMessage":
		if f.archived != "" && p.Get("channel") == f.archived {
			return `{"ok":false,"error":"is_archived"}`
		}
		m := posted{
			Channel: channelOf(p.Get("channel")),
			TS:      fmt.Sprintf("1700000000.%06d", len(f.messages)+1), Thread: p.Get("thread_ts"), Text: p.Get("text"),
			Blocks: p.Get("blocks"), Metadata: json.RawMessage(p.Get("metadata")), Broadcast: p.Get("reply_broadcast") == "true",
		}
		if len(m.Metadata) == 0 {
			m.Metadata = json.RawMessage("{}")
		}
		f.messages = append(f.messages, m)
		return fmt.Sprintf(`{"ok":true,"channel":%q,"ts":%q,"message":{"text":"x"}}`, m.Channel, m.TS)
	case "chat.update":
		if p.Get("channel") != channelOf(p.Get("channel")) {
			return `{"ok":false,"error":"channel_not_found"}`
		}
		for i := range f.messages {
			if m := &f.messages[i]; m.TS == p.Get("ts") && m.Channel == p.Get("channel") {
				m.Text, m.Blocks = p.Get("text"), p.Get("blocks")
				m.Edits++
				return fmt.Sprintf(`{"ok":true,"channel":%q,"ts":%q,"text":"x"}`, m.Channel, m.TS)
			}
		}
		return `{"ok":false,"error":"message_not_found"}`
	case "conversations.history":
		if p.Get("channel") != "C123" {
			return `{"ok":false,"error":"channel_not_found"}`
		}
		if p.Get("include_all_metadata") != "1" {
			return `{"ok":true,"messages":[]}`
		}
		var list []string
		for _, m := range slices.Backward(f.messages) {
			if m.Thread == "" {
				list = append(list, fmt.Sprintf(`{"type":"message","ts":%q,"metadata":%s}`, m.TS, m.Metadata))
			}
		}
		return `{"ok":true,"messages":[` + strings.Join(list, ",") + `],"has_more":false}`
	case "usergroups.list":
		return `{"ok":true,"usergroups":[{"id":"S0000000001","handle":"checkout-oncall"}]}`
	case "chat.getPermalink":
		return fmt.Sprintf(`{"ok":true,"channel":%q,"permalink":"https://acme.slack.com/archives/%s/p%s"}`, r.FormValue("channel"), r.FormValue("channel"), r.FormValue("message_ts"))
	}
	return `{"ok":false,"error":"unknown_method"}`
}

// channelOf returns the id of a channel by name or id: C123 unless it is #checkout.
func channelOf(channel string) string {
	if channel == "#checkout" || channel == "C456" {
		return "C456"
	}
	return "C123"
}

// top returns the messages in the channel, thread the replies.
func (f *fake) top() (out []posted)    { return f.which("") }
func (f *fake) thread() (out []posted) { return f.which("1700000000.000001") }

func (f *fake) which(thread string) (out []posted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.messages {
		if m.Thread == thread {
			out = append(out, m)
		}
	}
	return out
}
