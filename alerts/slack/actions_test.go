package slack

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The buttons follow the state of the group, and no text of an agent or a person can break them.
func TestControls(t *testing.T) {
	groupBy := []string{"service", "environment", "stage"}
	f := func(g alerts.Group, want string) string {
		t.Helper()
		var m message
		m.controls(g, groupBy)
		checkLimits(t, m)
		b := must.Get(json.Marshal(m.all()))(t)
		must.Equal(t, strings.TrimSpace(plainBlocks(t, b)), want, "plain text")
		return string(b)
	}
	const menu = "[Silence: for 1 hour, for 4 hours, until tomorrow 9:00]"
	blocks := f(group(incident()), "[Acknowledge] "+menu+" [Show the query]")
	must.Contain(t, blocks, `"action_id":"llmtap_acknowledge","value":"`+targetOf(group(incident())).String()+`"`)
	f(group(resolved()), "")
	known := group(incident())
	known.Alerts[0].Problem = "tool_calls_dropped_on_save"
	fix := " [Assign to me] [Fixed…: in 2.4.0, the newest, in every version]"
	f(known, "[Acknowledge] "+menu+fix+" [Show the query]")
	known.Known = &alerts.Problem{Resolved: &alerts.Resolution{}}
	f(known, "[Acknowledge] "+menu+" [Assign to me] [Not fixed] [Show the query]")
	g := group(incident())
	g.Ack = &alerts.Ack{By: anna.id, At: t0}
	f(g, "[Unacknowledge] "+menu+" [Show the query]")
	g.Alerts[0].Silence = &silence.Silence{ID: "1", Matchers: g.Matchers(groupBy)}
	if s := f(g, "[Unacknowledge] [Unsilence] [Show the query]"); strings.Contains(s, "confirm") {
		t.Errorf("a silence of this group asks for a confirmation: %s", s)
	}
	broad := must.Get(silence.ParseMatchers([]string{`severity=~"critical|` + strings.Repeat("<!channel>\u202e", 40) + `"`}))(t)
	g.Alerts[0].Silence = &silence.Silence{ID: "2", Matchers: broad}
	s := f(g, "[Unacknowledge] [Unsilence] [Show the query]")
	var list []struct {
		Elements []struct {
			Confirm struct {
				Text struct{ Type, Text string }
			}
		}
	}
	must.Do(t, json.Unmarshal([]byte(s), &list))
	if c := list[0].Elements[1].Confirm.Text; c.Type != "plain_text" || !strings.Contains(c.Text, "severity=~") || len([]rune(c.Text)) > 300 {
		t.Errorf("confirmation %+v", c)
	}
}

// A choice of the menu names a version, whatever it contains, as long as the group has it.
func TestVersionChoice(t *testing.T) {
	g := group(incident())
	must.Equal(t, newestVersion(g), "2.4.0", "newest version")
	for _, v := range []string{"2.3.9", "2.4.0", "", "2.4.0 <!channel>"} {
		target := targetOf(g)
		target.choice = versionChoice(v)
		if parsed, ok := parseTarget(target.String()); !ok || parsed != target || len(target.String()) > 75 {
			t.Errorf("%s: %+v", target, parsed)
		}
		known := v == "2.3.9" || v == "2.4.0"
		if got, ok := chosenVersion(g, target.choice); ok != known || known && got != v {
			t.Errorf("%q: %q, %v", v, got, ok)
		}
	}
	h := presser{}
	if _, err := h.decide(t.Context(), &press{}, g); err == nil {
		t.Error("a decision without problems")
	}
}

func TestTarget(t *testing.T) {
	for _, g := range []alerts.Group{group(incident()), {Key: "x", Alerts: []alerts.Alert{{}}}} {
		want := targetOf(g)
		want.choice = untilTomorrow
		if got, ok := parseTarget(want.String()); !ok || got != want || len(want.String()) > 75 {
			t.Errorf("%q is %+v, %v", want.String(), got, ok)
		}
	}
	for _, s := range []string{"", ".", "0123456789abcdef", "0123456789abcdef.", "0123456789abcdef.99999999999999999999", "0123456789abcdeg.1", "0123456789abcdef.1.", "0123456789abcdef.1.a\n"} {
		if got, ok := parseTarget(s); ok {
			t.Errorf("%q is %+v", s, got)
		}
	}
}

func TestSilenceEnd(t *testing.T) {
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	f := func(choice string, now time.Time, zone *time.Location, want string) {
		t.Helper()
		got, ok := silenceEnd(choice, now, zone)
		if ok != (want != "") || ok && got.In(zone).Format(time.RFC3339) != want {
			t.Errorf("%s at %s: %s, %v, want %s", choice, now, got.In(zone), ok, want)
		}
	}
	now := time.Date(2026, 11, 21, 23, 30, 0, 0, time.UTC) // 00:30 on the 22nd in Berlin
	f("1h", now, time.UTC, "2026-11-22T00:30:00Z")
	f("4h", now, time.UTC, "2026-11-22T03:30:00Z")
	f(untilTomorrow, now, time.UTC, "2026-11-22T09:00:00Z")
	f(untilTomorrow, now, berlin, "2026-11-23T09:00:00+01:00")
	f(untilTomorrow, time.Date(2027, 3, 27, 20, 0, 0, 0, berlin), berlin, "2027-03-28T09:00:00+02:00") // summer time begins
	f(untilTomorrow, time.Date(2026, 12, 31, 8, 0, 0, 0, berlin), berlin, "2027-01-01T09:00:00+01:00")
	f("100h", now, time.UTC, "")
	f("", now, time.UTC, "")
}

// A silence of a group without a label does not cover the groups that have it.
func TestGroupMatchers(t *testing.T) {
	groupBy := []string{"service", "environment"}
	a := incident()
	delete(a.Labels, "environment")
	m := group(a).Matchers(groupBy)
	other := incident()
	if !m.Match(a.Name, a.Labels) || m.Match(other.Name, other.Labels) || m.Match("Other", a.Labels) {
		t.Errorf("matchers %s", m)
	}
}

func TestQueryText(t *testing.T) {
	expr := func(a *alerts.Alert) string { return "calls{service=\"```\"} > 0" }
	none := func(*alerts.Alert) string { return "" }
	text := queryText(group(incident(), resolved()), alerts.Access{Host: "tap-1"}, expr)
	if strings.Count(text, "```") != 4 || !strings.Contains(text, "```calls{service=\"'''\"} &gt; 0```") || !strings.Contains(text, `stage="planner"}`) || !strings.Contains(text, "llmtap query causes --service checkout-agent") || !strings.Contains(text, "`tap-1`") {
		t.Error(text)
	}
	hostile := incident()
	hostile.Labels["service"], hostile.Labels["stage"] = "<!channel> *x* ``` @here", "\u202e```"
	if text = queryText(group(hostile), alerts.Access{}, none); strings.Contains(text, "<") || strings.Count(text, "```") != 2 {
		t.Error(text)
	}
	text = queryText(group(bare()), alerts.Access{}, expr)
	must.Equal(t, strings.Count(text, "```"), 2, "%v", text)
	text = queryText(group(bare()), alerts.Access{}, none)
	must.Contain(t, text, "There is no query")
}

// The manifest uses fields of Slack's schema (github.com/slackapi/manifest-schema, version 1), and requests the scopes that
// are used.
func TestManifest(t *testing.T) {
	file := must.Get(os.ReadFile(filepath.Join("..", "..", "deploy", "slack", "manifest.yaml")))(t)
	var m struct {
		Metadata struct {
			MajorVersion int `yaml:"major_version"`
		} `yaml:"_metadata"`
		DisplayInformation struct {
			Name        string `yaml:"name"`
			Description string `yaml:"description"`
		} `yaml:"display_information"`
		Features struct {
			BotUser struct {
				DisplayName  string `yaml:"display_name"`
				AlwaysOnline bool   `yaml:"always_online"`
			} `yaml:"bot_user"`
		} `yaml:"features"`
		OAuthConfig struct {
			Scopes struct {
				Bot []string `yaml:"bot"`
			} `yaml:"scopes"`
		} `yaml:"oauth_config"`
		Settings struct {
			Interactivity struct {
				IsEnabled bool `yaml:"is_enabled"`
			} `yaml:"interactivity"`
			SocketModeEnabled    bool `yaml:"socket_mode_enabled"`
			OrgDeployEnabled     bool `yaml:"org_deploy_enabled"`
			TokenRotationEnabled bool `yaml:"token_rotation_enabled"`
		} `yaml:"settings"`
	}
	must.Do(t, yaml.UnmarshalWithOptions(file, &m, yaml.Strict()))
	if n, d := m.DisplayInformation.Name, m.DisplayInformation.Description; n == "" || len(n) > 35 || d == "" || len(d) > 140 || m.Features.BotUser.DisplayName == "" {
		t.Errorf("name %q, description %q (%d characters)", n, d, len(d))
	}
	// A rotated token expires after 12 hours, and llmtap does not renew it.
	if s := m.Settings; m.Metadata.MajorVersion != 1 || !s.Interactivity.IsEnabled || !s.SocketModeEnabled || s.TokenRotationEnabled {
		t.Errorf("settings %+v", s)
	}
	source := must.Get(os.ReadFile("check.go"))(t)
	var used []string
	for _, c := range regexp.MustCompile(`(?m)^\tscope\w+ += "([a-z:.]+)"`).FindAllStringSubmatch(string(source), -1) {
		if c[1] != scopeWritePublic {
			used = append(used, c[1])
		}
	}
	slices.Sort(used)
	requested := slices.Sorted(slices.Values(m.OAuthConfig.Scopes.Bot))
	if !slices.Equal(used, requested) || len(used) != 7 {
		t.Errorf("the manifest requests %v, the code uses %v", requested, used)
	}
}

// A press of Unsilence ends the silences of the group and those that its message names. The next message names what is left.
func TestUnsilence(t *testing.T) {
	now := time.Now()
	c := &testControls{g: group(incident())}
	for i, matchers := range [][]string{{"service=checkout-agent", "environment=prod", "stage=planner", "alertname=StageFailureRate"}, {"severity=critical"}, {"environment=prod"}, {"service=other"}} {
		ms := must.Get(silence.ParseMatchers(matchers))(t)
		if i == 0 {
			ms = c.g.Matchers(groupLabels)
		}
		c.silences = append(c.silences, silence.Silence{ID: string(rune('a' + i)), Matchers: ms, StartsAt: now, EndsAt: now.Add(time.Hour)})
	}
	h := &presser{controls: c, groupBy: groupLabels, now: time.Now}
	left := func() (ids string) {
		for _, s := range c.silences {
			if s.Active(time.Now()) {
				ids += s.ID
			}
		}
		return ids
	}
	g := group(incident())
	g.Alerts[0].Silence = &c.silences[0]
	for _, step := range []struct{ left, text string }{{"bcd", `severity="critical"; environment="prod"`}, {"cd", "Still silenced by `environment"}, {"d", ""}, {"d", "No silence covers"}} {
		text, err := h.unsilence(t.Context(), &press{}, g)
		if err != nil || left() != step.left || !strings.Contains(text, step.text) || step.text == "" && text != "" {
			t.Errorf("silences %s are left, %v, and the reply is %q; want %s and %q", left(), err, text, step.left, step.text)
		}
		for i := range c.silences {
			if strings.HasPrefix(step.left, c.silences[i].ID) {
				g.Alerts[0].Silence = &c.silences[i]
			}
		}
	}
	// Several alerts of a group may have different silences.
	other := incident()
	g.Alerts[0].Silence, other.Silence = &c.silences[1], &c.silences[2]
	g.Alerts = append(g.Alerts, other)
	var m message
	m.controls(g, groupLabels)
	b := must.Get(json.Marshal(m.all()))(t)
	for _, want := range []string{"End 2 silences?", `severity=\"critical\"; environment=\"prod\"`} {
		must.Contain(t, string(b), want)
	}
}
