package slack

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// serve runs the app: it acknowledges presses and answers them with text.
func serve(t *testing.T, c *api.Client) (presses func() []string) {
	t.Helper()
	var mu sync.Mutex
	var got []string
	client := socketmode.New(c)
	ctx, cancel := context.WithCancel(t.Context())
	hello := make(chan struct{})
	var g sync.WaitGroup
	g.Go(func() {
		if err := client.RunContext(ctx); ctx.Err() == nil {
			t.Errorf("the app has ended: %v", err)
			close(hello)
		}
	})
	g.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-client.Events:
				if e.Type == socketmode.EventTypeHello {
					close(hello)
				}
				if e.Type == socketmode.EventTypeConnectionError {
					t.Errorf("%v", e.Data.(*api.ConnectionErrorEvent).ErrorObj)
				}
				cb, ok := e.Data.(api.InteractionCallback)
				if !ok {
					continue
				}
				a := cb.ActionCallback.BlockActions[0]
				mu.Lock()
				got = append(got, a.ActionID+" "+a.Value+a.SelectedOption.Value+" by "+cb.User.ID+" on "+cb.Channel.Name)
				mu.Unlock()
				if err := api.PostWebhookContext(ctx, cb.ResponseURL, &api.WebhookMessage{Text: "seen by *you* &lt;b&gt;", ResponseType: "ephemeral"}); err != nil {
					t.Error(err)
				}
				if err := client.Ack(*e.Request); err != nil {
					t.Error(err)
				}
			}
		}
	})
	t.Cleanup(func() { cancel(); g.Wait() })
	select {
	case <-hello:
	case <-time.After(time.Minute):
		t.Fatal("the app is not greeted")
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), got...)
	}
}

// A person presses buttons on the page; the app receives them over Socket Mode.
func TestPage(t *testing.T) {
	s := New(Config{Channels: []string{"oncall"}})
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	c := api.New("xoxb-1", api.OptionAPIURL(srv.URL+"/api/"), api.OptionAppLevelToken("xapp-1"))
	plain := func(s string) *api.TextBlockObject { return api.NewTextBlockObject(api.PlainTextType, s, false, false) }
	row := api.NewActionBlock("", api.NewButtonBlockElement("ack", "g1", plain("Acknowledge")),
		api.NewOptionsSelectBlockElement(api.OptTypeStatic, plain("Silence"), "mute", api.NewOptionBlockObject("g1.4h", plain("for 4 hours"), nil)))
	_, ts, err := c.PostMessageContext(t.Context(), "oncall", api.MsgOptionBlocks(section("<!channel> *down* &lt;script&gt; <javascript:x|y> `a_b` <https://x.test/a_b|open>"), row))
	must.Do(t, err)
	body := func(r *http.Response, err error) string {
		t.Helper()
		must.Do(t, err)
		defer r.Body.Close()
		b := must.Get(io.ReadAll(r.Body))(t)
		return string(b)
	}
	press := func(action, option string) string {
		t.Helper()
		return body(http.PostForm(srv.URL+"/press", url.Values{"channel": {"C00000001"}, "ts": {ts}, "action": {action}, "option": {option}}))
	}
	must.Contain(t, press("ack", ""), "the app did not respond", "a press without an app")
	presses := serve(t, c)
	text := press("ack", "")
	for _, want := range []string{"<b>down</b>", "&lt;script&gt;", `<a href="https://x.test/a_b">open</a>`, "<code>a_b</code>", ">Acknowledge</button>", "<option>for 4 hours</option>", "seen by <b>you</b> &lt;b&gt;"} {
		must.Contain(t, text, want)
	}
	if strings.Contains(text, "did not respond") || strings.Contains(text, `href="javascript`) {
		t.Errorf("page\n%s", text)
	}
	press("mute", "for 4 hours")
	must.Equal(t, strings.Join(presses(), ", "), "ack g1 by U00000002 on oncall, mute g1.4h by U00000002 on oncall", "presses")
	must.Contain(t, press("none", ""), "no button")

	// Another page cannot press.
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/press", http.NoBody))(t)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	must.Equal(t, must.Get(http.DefaultClient.Do(r))(t).StatusCode, http.StatusForbidden, "status")
}
