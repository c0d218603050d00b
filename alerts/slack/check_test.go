package slack

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// checkServer is a Slack API with one valid token. The answers are Slack's, as documented for each method.
type checkServer struct {
	scopes   string // of the token
	channels string // answer of conversations.list and conversations.info; "": the scope channels:read is missing
	socket   string // answer of apps.connections.open
	posted   bool
}

func (s *checkServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-OAuth-Scopes", s.scopes)
	if r.URL.Path == "/api/apps.connections.open" && r.Header.Get("Authorization") == "Bearer xapp-1" {
		_, _ = io.WriteString(w, s.socket)
		return
	}
	if r.FormValue("token") != "xoxb-1" && r.Header.Get("Authorization") != "Bearer xoxb-1" {
		_, _ = io.WriteString(w, `{"ok":false,"error":"invalid_auth"}`)
		return
	}
	answer := `{"ok":false,"error":"unknown_method"}`
	switch method := strings.TrimPrefix(r.URL.Path, "/api/"); method {
	case "auth.test":
		answer = `{"ok":true,"team":"Acme","user":"llmtap","team_id":"T1","user_id":"U1"}`
	case "conversations.list", "conversations.info":
		switch {
		case s.channels == "":
			answer = `{"ok":false,"error":"missing_scope","needed":"channels:read","provided":"` + s.scopes + `"}`
		case method == "conversations.list":
			answer = fmt.Sprintf(`{"ok":true,"channels":[%s],"response_metadata":{"next_cursor":""}}`, s.channels)
		case strings.Contains(s.channels, r.FormValue("channel")):
			answer = fmt.Sprintf(`{"ok":true,"channel":%s}`, s.channels)
		default:
			answer = `{"ok":false,"error":"channel_not_found"}`
		}
	case "chat.getPermalink":
		answer = `{"ok":false,"error":"channel_not_found"}`
		if r.FormValue("channel") == "C0000001" {
			answer = `{"ok":false,"error":"message_not_found"}`
		}
	case "usergroups.list":
		answer = `{"ok":false,"error":"missing_scope","needed":"usergroups:read"}`
		if strings.Contains(s.scopes, "usergroups:read") {
			answer = `{"ok":true,"usergroups":[{"id":"S0000000001","handle":"oncall"}]}`
		}
	case "chat.postMessage":
		s.posted = true
	}
	_, _ = io.WriteString(w, answer)
}

// checked returns the finding of a check, or its error.
func checked(t *testing.T, cfg Config) (finding string, err error) {
	t.Helper()
	list, err := cfg.Receivers(alerts.NotifierOptions{})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if finding, err = list[0].Check(t.Context()); err != nil {
		finding = err.Error()
	}
	return finding, err
}

// The check of a receiver finds a wrong token, missing scopes and a wrong channel without posting.
func TestCheck(t *testing.T) {
	api := &checkServer{}
	srv := httptest.NewServer(api)
	defer srv.Close()
	f := func(token, channel, scopes, channels, want string) {
		t.Helper()
		api.scopes, api.channels = scopes, channels
		got, err := checked(t, Config{APIURL: srv.URL + "/api/", Channel: channel, Token: token})
		if strings.HasPrefix(want, "posts as") != (err == nil) || !strings.HasPrefix(got, want) {
			t.Errorf("%s %s, scopes %s:\ngot  %s\nwant %s", token, channel, scopes, got, want)
		}
	}
	const (
		member  = `{"id":"C0000001","name":"oncall","is_channel":true,"is_member":true}`
		visitor = `{"id":"C0000001","name":"oncall","is_channel":true,"is_member":false}`
		archive = `{"id":"C0000001","name":"oncall","is_channel":true,"is_archived":true}`
		full    = "chat:write,channels:read"
	)
	f("xoxb-1", "#oncall", full, member, "posts as llmtap of Acme")
	f("xoxb-1", "C0000001", full, member, "posts as llmtap of Acme")
	f("xoxb-1", "C0000001", "chat:write", "", "posts as llmtap of Acme")
	f("xoxb-1", "#oncall", "chat:write", "", "posts as llmtap of Acme; the channel is not verified: set slack.channel to its id")
	f("xoxb-1", "#oncall", "", member, "posts as llmtap of Acme")
	f("xoxb-1", "#oncall", full+",chat:write.public", visitor, "posts as llmtap of Acme")

	f("xoxb-2", "#oncall", full, member, "verify the token: auth.test: invalid_auth; check slack.token: Slack does not know it")
	f("xoxb-1", "#oncall", "channels:read", member, "verify the token: it has the scopes channels:read, not chat:write; add the scope")
	f("xoxb-1", "#onclal", full, member, "find the channel: channel_not_found: no channel is named #onclal; correct slack.channel, or set it to")
	f("xoxb-1", "#onclal", full+",groups:read", member, "find the channel: channel_not_found: no channel is named #onclal; correct slack.channel")
	f("xoxb-1", "C0000002", full, member, "find the channel: chat.getPermalink: channel_not_found; check slack.channel")
	f("xoxb-1", "C0000002", "chat:write", "", "find the channel: chat.getPermalink: channel_not_found; check slack.channel")
	f("xoxb-1", "#oncall", full, visitor, "post to #oncall: not_in_channel; invite the app")
	f("xoxb-1", "C0000001", full, archive, "post to C0000001: is_archived; the channel is archived")
	srv.Close()
	f("xoxb-1", "#oncall", full, member, "reach Slack: auth.test: dial tcp")
	if api.posted {
		t.Error("the check posted a message")
	}
}

// With an app-level token, the check also verifies that buttons can work. Without the scopes for details it says so.
func TestCheckButtons(t *testing.T) {
	api := &checkServer{channels: `{"id":"C0000001","name":"oncall","is_channel":true,"is_member":true}`}
	srv := httptest.NewServer(api)
	defer srv.Close()
	f := func(scopes, socket string, allowed []string, want string) {
		t.Helper()
		api.scopes, api.socket = scopes, socket
		cfg := Config{APIURL: srv.URL + "/api/", Channel: "C0000001", Token: "xoxb-1", AppToken: "xapp-1", Allowed: allowed}
		got, _ := checked(t, cfg)
		must.Equal(t, got, want, "report")
	}
	const (
		ok    = `{"ok":true,"url":"wss://127.0.0.1/link?ticket=1"}`
		all   = "chat:write,channels:read,channels:history,users:read,usergroups:read"
		fails = "messages are sent, but buttons do not work: "
	)
	f(all, ok, []string{"S0000000001"}, "posts as llmtap of Acme")
	f("chat:write,channels:read", ok, nil, "posts as llmtap of Acme; a message whose post is in doubt is posted again: give the app the scope "+
		"channels:history; silences until tomorrow end at 9:00 UTC: give the app the scope users:read")
	f("chat:write,users:read", ok, []string{"U0000000001", "S0000000001"}, fails+"slack.allowed has user groups, but the bot token has no scope usergroups:read; "+
		"add the scope to the app and install it again")
	f(all, `{"ok":false,"error":"invalid_auth"}`, nil, fails+"verify the app-level token: apps.connections.open: invalid_auth; check slack.app_token: Slack does not know it")
	f(all, `{"ok":false,"error":"missing_scope","needed":"connections:write"}`, nil, fails+"verify the app-level token: apps.connections.open: missing_scope "+
		"(needed: connections:write); generate an app-level token with the scope connections:write and set slack.app_token")
}

// The check covers the channels of routes and the handles of mentions, and names the key of a wrong one.
func TestCheckRoutes(t *testing.T) {
	api := &checkServer{channels: `{"id":"C0000001","name":"oncall","is_member":true},{"id":"C0000003","name":"checkout","is_member":true},{"id":"C0000004","name":"guest"}`}
	srv := httptest.NewServer(api)
	defer srv.Close()
	f := func(channel, mention, scopes, want string) {
		t.Helper()
		api.scopes = scopes
		c := Config{APIURL: srv.URL + "/api/", Channel: "#oncall", Token: "xoxb-1", Mentions: map[string][]string{"critical": {"@here"}}}
		c.Routes = []Route{{Match: []string{"a=b"}, Channel: "#oncall"}, {Match: []string{"a=c"}, Channel: channel, Mention: []string{mention}}}
		got, err := checked(t, c)
		if strings.HasPrefix(want, "posts as") != (err == nil) || !strings.HasPrefix(got, want) {
			t.Errorf("%s, %s:\ngot  %s\nwant %s", channel, mention, got, want)
		}
	}
	const full = "chat:write,channels:read,channels:history,usergroups:read"
	f("#checkout", "@oncall", full, "posts as llmtap of Acme")
	f("", "@channel", "chat:write,channels:read", "posts as llmtap of Acme")
	f("#chekout", "@oncall", full, "find the channel: channel_not_found: no channel is named #chekout; correct slack.routes[1].channel")
	f("#guest", "@oncall", full, "post to #guest: not_in_channel; invite the app")
	f("C0000002", "@oncall", full, "slack.routes[1].channel: find the channel: chat.getPermalink: channel_not_found")
	f("#checkout", "@onkall", full, "messages are sent, but somebody is not mentioned: slack.routes[1].mention: no user group has the handle @onkall; correct it")
	f("#checkout", "@oncall", "chat:write,channels:read",
		"messages are sent, but somebody is not mentioned: verify the user groups to mention: usergroups.list: missing_scope")
}
