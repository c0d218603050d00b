package web

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestLabelCells(t *testing.T) {
	f := func(html, want string) {
		t.Helper()
		must.Equal(t, string(labelCells([]byte(html))), want, "labelled")
	}
	f(`a &lt; b <p>c</p`, `a &lt; b <p>c</p`)
	f(`<table><thead><tr><th>Tool</th><th class="n"><a href="/">95%</a> &#34;x&#34;</th></tr></thead><tbody><tr><td>a</td><td class="n"><b>1</b></td></tr><tr><td colspan="2">idle</td></tr></tbody></table>`,
		`<table><thead><tr><th>Tool</th><th class="n"><a href="/">95%</a> &#34;x&#34;</th></tr></thead><tbody><tr><td data-label="Tool">a</td><td data-label="95% &#34;x&#34;" class="n"><b>1</b></td></tr><tr><td colspan="2">idle</td></tr></tbody></table>`)
	f(`<table><tr><th>A</th></tr><tr><td>1</td><td>no head</td></tr></table><table><tr><td>of no table before</td></tr></table>`,
		`<table><tr><th>A</th></tr><tr><td data-label="A">1</td><td>no head</td></tr></table><table><tr><td>of no table before</td></tr></table>`)
}
