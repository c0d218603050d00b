package oidctest

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// Two processes share sessions: one that was started at the first works at the second, and ends at both. Actions carry the name of the
// person, whatever the form says, and the API beside the pages is closed.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	natsURL := collectortest.StartNATS(t, "")
	port := testnet.FreePort(t)
	first := fmt.Sprintf("http://127.0.0.1:%d", port)
	p := newProvider(t, first+web.CallbackPath)
	p.set("anna", "on-call")
	p.set("eve", "staff")
	var bases [2]string
	for i := range bases {
		c := must.Get(collector.Open(t.Context(), collectortest.Config(t, func(cfg *config.Config) {
			cfg.Roles, cfg.NATS.URL, cfg.ClickHouse.DSN = []string{config.RoleUI}, natsURL, "http://127.0.0.1:1/llmtap"
			cfg.UI.ExternalURL, cfg.UI.OIDC.Issuer, cfg.UI.OIDC.ClientID, cfg.UI.OIDC.ClientSecret, cfg.UI.OIDC.Roles = first, p.URL, clientID, clientSecret, groups
			if i == 0 {
				cfg.UI.Listen = fmt.Sprintf("127.0.0.1:%d", port)
			}
		}), collector.Options{Logger: slog.New(slog.DiscardHandler)}))(t)
		collectortest.Run(t, c)
		bases[i] = strings.TrimSuffix(c.UIURL(), "/")
	}
	const page = "/views" // it reads nothing from ClickHouse
	session := func(b browser) *http.Cookie {
		for _, c := range b.Jar.Cookies(must.Get(url.Parse(first + "/"))(t)) {
			if c.Name == access.SessionCookie {
				c.Path = "/"
				return c
			}
		}
		t.Fatal("no session")
		return nil
	}
	anna := newBrowser(t)
	anna.login(first, "anna")
	// Once NATS answers, the session is known to both.
	must.Wait(t, "the session at the second process", func() bool {
		if anna.get(first+page).code != http.StatusOK {
			anna.login(first, "anna") // the first session was only in the memory of the process, which then read those of NATS
		}
		anna.Jar.SetCookies(must.Get(url.Parse(bases[1]+"/"))(t), []*http.Cookie{session(anna)})
		a := anna.get(bases[1] + page)
		return a.code == http.StatusOK && strings.Contains(a.body, "Anna Example")
	})

	act := func(b browser, base, path string, form url.Values) answer {
		t.Helper()
		m := formValue.FindStringSubmatch(b.get(base + page).body)
		if m == nil {
			t.Fatal("no form")
		}
		form.Set("form", m[1])
		return b.do(http.MethodPost, base+path, form)
	}
	silence := url.Values{"matchers": {"service=shop"}, "for": {"1h"}, "comment": {"deploy"}, "name": {"Mallory"}}
	must.Wait(t, "a silence", func() bool { return act(anna, bases[1], "/silences", silence).code == http.StatusSeeOther })
	eve := newBrowser(t)
	eve.login(first, "eve")
	a := act(eve, first, "/logout", url.Values{}) // a viewer has forms, too
	must.Equal(t, a.code, http.StatusSeeOther, "log-out of a viewer")
	eve.login(first, "eve")
	must.Wait(t, "the session of the viewer", func() bool { return eve.get(first+page).code == http.StatusOK })
	must.Equal(t, act(eve, first, "/silences", silence).code, http.StatusForbidden, "a viewer silences")
	view := url.Values{"view": {"mine"}, "url": {"/alerts"}, "name": {"Mallory"}}
	must.Equal(t, act(anna, first, "/views", view).code, http.StatusSeeOther, "a view is saved")
	body := eve.get(first + page).body
	must.Contain(t, body, "by Anna Example")
	if strings.Contains(body, "Mallory") || strings.Contains(body, `action="/views/rename"`) {
		t.Errorf("a viewer sees %s", body)
	}

	for _, path := range []string{"/api/v2/silences", "/api/v1/status/buildinfo", "/api/v1/tokens"} {
		must.Equal(t, anna.get(first+path).code, http.StatusUnauthorized, "%s with a session only", path)
	}
	resp := must.Get(http.Post(first+"/api/query", "application/json", strings.NewReader(`{"sql": "SELECT 1"}`)))(t)
	_, _ = io.Copy(io.Discard, resp.Body)
	must.Do(t, resp.Body.Close())
	must.Equal(t, resp.StatusCode, http.StatusUnauthorized, "SQL beside the pages")

	must.Equal(t, act(anna, bases[1], "/logout", url.Values{}).code, http.StatusSeeOther, "log-out")
	since := time.Now()
	must.Wait(t, "the end of the session at the first process", func() bool { return anna.get(first+page).code != http.StatusOK })
	t.Logf("ended at the other process after %v", time.Since(since))
}
