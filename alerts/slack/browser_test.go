package slack

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var pictures = flag.String("pictures", "", "write pictures of the messages to this directory")

// maxLines is the number of lines that a person reads in ten seconds on a phone.
const maxLines = 10

// On a phone, a message says in at most ten lines what happens, since when, why, whose change, proof and
// what to do. The details are collapsed.
func TestLinesOnPhone(t *testing.T) {
	slowtest.SkipShort(t, "starts a browser")
	browser := findBrowser(t)
	needFont(t)
	var page strings.Builder
	page.WriteString(pageHead + `<body style="width: 390px">`) // a window cannot be as narrow
	all := messages()
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names {
		fmt.Fprintf(&page, `<div class="message" id="%s">%s</div>`, name, blocksHTML(t, all[name]))
	}
	shipped := shippedGroups(t)
	for _, g := range shipped {
		names = append(names, g.Key)
		fmt.Fprintf(&page, `<div class="message" id="%s">%s</div>`, g.Key, blocksHTML(t, shown(g)))
	}
	page.WriteString(countLines)
	file := filepath.Join(t.TempDir(), "page.html")
	must.Do(t, os.WriteFile(file, []byte(page.String()), 0o600))
	dom := run(t, browser, "--window-size=390,2000", "--dump-dom", "file://"+file)
	counted := regexp.MustCompile(`data-lines="(\d+)" id="([^"]+)"|id="([^"]+)" data-lines="(\d+)"`).FindAllStringSubmatch(dom, -1)
	lines := map[string]string{}
	for _, m := range counted {
		lines[m[2]+m[3]] = m[1] + m[4]
	}
	for _, name := range names {
		var n int
		if _, err := fmt.Sscan(lines[name], &n); err != nil || n == 0 {
			t.Errorf("%s: the browser counted no lines", name)
		}
		t.Logf("%s: %d lines", name, n)
		if n > maxLines {
			t.Errorf("%s: %d lines before the buttons, want at most %d", name, n, maxLines)
		}
	}
	if *pictures == "" {
		return
	}
	for _, name := range names[:len(names)-len(shipped)] {
		for _, width := range []int{390, 720} {
			for _, theme := range []string{"light", "dark"} {
				one := fmt.Sprintf(`%s<body class="%s" style="width: %dpx"><div class="message">%s</div>`, pageHead, theme, width, blocksHTML(t, all[name]))
				must.Do(t, os.WriteFile(file, []byte(one), 0o600))
				run(t, browser, fmt.Sprintf("--window-size=%d,560", width), fmt.Sprintf("--screenshot=%s/%s-%d-%s.png", *pictures, name, width, theme), "file://"+file)
			}
		}
	}
}

// findBrowser returns the path of Chromium. CI must have it.
func findBrowser(t *testing.T) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("Chromium is not installed, so nothing checks how a message looks")
	}
	t.Skip("SKIPPED: Chromium is not installed, so nothing checks how a message looks (apt-get install chromium fonts-lato)")
	return ""
}

// needFont skips the test without Slack's font, or fails it in CI: another font breaks lines elsewhere.
func needFont(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "fc-list", "Lato").Output()
	switch {
	case err == nil && len(out) > 0:
	case os.Getenv("CI") == "true":
		t.Fatal("the font Lato is not installed (apt-get install fonts-lato)")
	default:
		t.Skip("SKIPPED: the font Lato is not installed, so nothing counts lines on a phone (apt-get install fonts-lato)")
	}
}

func run(t *testing.T, browser string, args ...string) string {
	t.Helper()
	args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(), "--force-device-scale-factor=2"}, args...)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), browser, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	must.Do(t, err, &stderr)
	return string(out)
}

// blocksHTML renders the blocks of m approximately as Slack does.
func blocksHTML(t *testing.T, m message) string {
	t.Helper()
	raw := must.Get(json.Marshal(m.all()))(t)
	var b strings.Builder
	writeBlocks(t, &b, raw)
	return b.String()
}

func writeBlocks(t *testing.T, b *strings.Builder, raw []byte) {
	t.Helper()
	list := must.JSON[[]viewBlock](t, raw)
	for _, x := range list {
		switch x.Type {
		case "header":
			fmt.Fprintf(b, `<h3 class="top">%s</h3>`, emoji.Replace(html.EscapeString(x.Text.Text)))
		case "section":
			class := ""
			if x.Expand {
				class = ` class="top"`
			}
			fmt.Fprintf(b, "<p%s>%s</p>", class, mrkdwnHTML(x.Text.Text))
		case "context":
			for _, e := range x.Elements {
				class := "top"
				if strings.Contains(e.Content(), "|Open ") {
					class = ""
				}
				fmt.Fprintf(b, `<p class="context %s">%s</p>`, class, mrkdwnHTML(e.Content()))
			}
		case "actions":
			b.WriteString(`<div class="actions">`)
			for _, e := range x.Elements {
				label, _, _ := strings.Cut(e.Label(), ":")
				if e.Type == "static_select" {
					label += " ▾"
				}
				fmt.Fprintf(b, `<span class="button %s">%s</span>`, e.Style, html.EscapeString(label))
			}
			b.WriteString("</div>")
		case "container":
			open := " open"
			if x.Collapsed {
				open = ""
			}
			fmt.Fprintf(b, `<details%s><summary>%s</summary>`, open, html.EscapeString(x.Title.Text))
			writeBlocks(t, b, x.Children)
			b.WriteString("</details>")
		}
	}
}

var (
	emoji = strings.NewReplacer(":red_circle:", "🔴", ":large_orange_circle:", "🟠", ":large_blue_circle:", "🔵", ":large_green_circle:", "🟢", ":white_circle:", "⚪",
		":hourglass:", "⏳", ":bell:", "🔔", ":no_bell:", "🔕", ":eyes:", "👀", ":link:", "🔗", ":warning:", "⚠️")
	dates    = regexp.MustCompile(`<!date\^\d+\^(\{date_short_pretty\} )?[^|>]*\|(?:[0-9-]+ )?([0-9:]+) UTC>`)
	people   = regexp.MustCompile(`<@[UW][A-Z0-9]*>`)
	linkHTML = regexp.MustCompile(`<([^|>!@]*)\|([^>]*)>`)
	boldHTML = regexp.MustCompile(`\*([^*\n]+)\*`)
	codeHTML = regexp.MustCompile("`([^`\n]+)`")
	pre      = regexp.MustCompile("(?s)```(.*?)```")
)

// mrkdwnHTML renders mrkdwn, whose text is escaped already.
func mrkdwnHTML(s string) string {
	s = dates.ReplaceAllStringFunc(s, func(token string) string {
		m := dates.FindStringSubmatch(token)
		if m[1] != "" {
			return "Nov 21st " + m[2]
		}
		return m[2]
	})
	s = people.ReplaceAllString(s, `<span class="link">@bob</span>`)
	s = linkHTML.ReplaceAllString(s, `<span class="link">$2</span>`)
	s = pre.ReplaceAllString(s, "<pre>$1</pre>")
	s = codeHTML.ReplaceAllString(s, "<code>$1</code>")
	s = boldHTML.ReplaceAllString(s, "<b>$1</b>")
	return strings.ReplaceAll(emoji.Replace(s), "\n", "<br>")
}

// pageHead has the sizes of Slack's clients: 15 px Lato, and a column for the picture of the app.
const pageHead = `<!doctype html><meta charset="utf-8"><style>
body { margin: 0; box-sizing: border-box; padding: 12px 16px; font: 15px/1.47 Lato, "Noto Color Emoji", sans-serif; color: #1d1c1d; background: #fff; }
.message { margin: 0 0 24px 44px; max-width: 600px; }
h3 { font-size: 18px; line-height: 1.33; font-weight: 900; margin: 0 0 4px; }
p { margin: 0 0 8px; overflow-wrap: anywhere; }
.context { font-size: 13px; color: #616061; }
code, pre { font: 12px/1.5 "DejaVu Sans Mono", monospace; color: #c01343; background: #f6f6f6; border: 1px solid #ddd; border-radius: 3px; padding: 1px 3px; }
pre { color: inherit; white-space: pre-wrap; margin: 4px 0; padding: 8px; }
.link { color: #1264a3; } .actions { margin: 0 0 8px; }
.button { display: inline-block; border: 1px solid #bbb; border-radius: 4px; padding: 4px 10px; margin: 0 8px 8px 0; font-weight: 700; font-size: 13px; }
.primary { background: #007a5a; color: #fff; } details { border: 1px solid #ddd; border-radius: 8px; padding: 8px 12px; margin: 0 0 8px; } summary { font-weight: 700; }
.dark { color: #d1d2d3; background: #1a1d21; } .dark .context { color: #ababad; } .dark code { background: #222529; color: #e8912d; } .dark .link { color: #1d9bd1; }
</style>`

// countLines writes the number of rendered lines above the buttons to each message.
const countLines = `<script>
for (const m of document.querySelectorAll(".message")) {
  let n = 0;
  for (const e of m.querySelectorAll(".top")) n += Math.round(e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight));
  m.setAttribute("data-lines", n);
}
</script>`
