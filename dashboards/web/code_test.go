package web

import (
	"html/template"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestPlaces(t *testing.T) {
	const github = "https://github.com/acme/agent/blob/v{version}/{file}#L{line}"
	f := func(link, version, code, text, want string) {
		t.Helper()
		p := places(link)(version, code)
		if p == nil || p.Text != text || p.URL != want {
			t.Errorf("%q of version %q is %+v, want %q and %q", code, version, p, text, want)
		}
	}
	f(github, "2.4.0", "core/agent.py:145 Agent.run", "core/agent.py:145, Agent.run", "https://github.com/acme/agent/blob/v2.4.0/core/agent.py#L145")
	f(github, "a/b?c", "my dir/a#b.py:7", "my dir/a#b.py:7", "https://github.com/acme/agent/blob/va%2Fb%3Fc/my%20dir/a%23b.py#L7")
	f(github, "", "a.py:7 f", "a.py:7, f", "")
	f("https://git/{file}", "", "a.py:7 f", "a.py:7, f", "https://git/a.py")
	f(github, "1", "../../secret.py:7 f", "../../secret.py:7, f", "")
	f(github, "1", "no place", "no place", "")
	f("", "1", "a.py:7 f", "a.py:7, f", "")
	if p := places(github)("1", ""); p != nil {
		t.Errorf("a place without code: %+v", p)
	}
	page, err := template.New("").Funcs(functions).Funcs(template.FuncMap{"place": places(github)}).ParseFS(templateFiles, "templates/*.html")
	must.Do(t, err)
	var b strings.Builder
	must.Do(t, page.ExecuteTemplate(&b, "place", places(github)("1", `a"><script>.py:7 f<b>`)))
	want := `<a href="https://github.com/acme/agent/blob/v1/a%22%3E%3Cscript%3E.py#L7"><code>a&#34;&gt;&lt;script&gt;.py:7, f&lt;b&gt;</code></a>`
	must.Equal(t, b.String(), want, "place")
}
