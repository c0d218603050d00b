package testnotify

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/browsertest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var pictures = flag.String("pictures", "", "write pictures of mails to this `directory`")

// A person reads the mails of an incident on a computer and on a phone: nothing is cut, the first link leads to llmtap's page.
func TestMailInBrowser(t *testing.T) {
	slowtest.SkipShort(t, "starts a browser")
	r := collectortest.StartReceivers(t)
	cfg := must.Get(config.Load(r.ConfigFile(t), func(string) string { return "" }))(t)
	email := must.Get(cfg.Email.Receivers(alerts.NotifierOptions{Access: alerts.Access{ExternalURL: "https://llmtap.example.com", Host: "collector-1"}}))(t)[0]
	for _, g := range alertstest.Steps() {
		must.Do(t, email.Notify(t.Context(), g))
	}
	mails := r.Mail.Mails()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if i := strings.Index("0123", req.URL.Path[1:]); i >= 0 { // else the icon, which a mail does not have
			_, _ = io.WriteString(w, mails[i].HTML)
		}
	}))
	defer srv.Close()
	x := alertstest.Incident().Alerts[0].Evidence
	browser := browsertest.Start(t)
	for _, view := range []browsertest.View{{Width: 800, Height: 700}, {Width: 390, Height: 844}} {
		page := browser.Page(t, view)
		for _, mail := range []string{"0", "3"} { // the first and the last one
			page.Open(srv.URL + "/" + mail)
			text := strings.Join(strings.Fields(page.Text("body")), " ")
			must.Contain(t, text, x.Shares[0].Fix, view, mail)
			if mail == "0" {
				must.Contain(t, text, "In conversation "+x.Example.Conversation+", messages[3], tool call call_9fQ2, rule orphan_tool_reply "+x.Example.Summary, view)
			}
			must.Contain(t, page.Links("a")[0], "https://llmtap.example.com/problem/", view, mail)
			for _, bad := range append(page.Overflow(), page.Problems()...) {
				t.Errorf("%v, mail %s: %s", view, mail, bad)
			}
			for _, v := range page.Audit() {
				t.Errorf("%v, mail %s: %s", view, mail, v)
			}
			if *pictures != "" {
				name := map[string]string{"0": "email", "3": "email-resolved"}[mail]
				if view.Width < 600 {
					name += "-phone"
				}
				must.Do(t, os.WriteFile(filepath.Join(*pictures, name+".png"), page.Screenshot(), 0o644))
			}
		}
	}
}
