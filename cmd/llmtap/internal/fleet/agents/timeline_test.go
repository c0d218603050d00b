package agents

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// one returns a service with one conversation per task.
func one(name, path, model string, c func(i int) conversation) service {
	return service{name: name, path: path, model: model, task: func(i int, _ string, _ *rand.Rand) (int, []conversation) { return 0, []conversation{c(i)} }}
}

// repliesToTwo is incident 1: calls beyond the second get no reply.
func repliesToTwo() saver {
	s := healthy
	s.replies = func(history []message, m message, run func(toolCall) string) []message {
		m.ToolCalls = m.ToolCalls[:min(2, len(m.ToolCalls))]
		return healthy.replies(history, m, run)
	}
	return s
}

// loadsReplies is the second defect of incident 3: the history comes from a database that has replies, but not their calls.
func loadsReplies() saver {
	s := healthy
	s.compact = func(history []message) []message {
		if len(history) > 2 {
			return history
		}
		return []message{history[0], text("user", "What is new in Python?"), reply("function-call-1", "Python 3.14 is out"), history[1]}
	}
	return s
}

// argumentsAsObject is the first defect of incident 3: arguments are sent as they are stored.
func argumentsAsObject(body []byte) []byte {
	return arguments.ReplaceAllFunc(body, func(m []byte) []byte {
		var object string
		_ = json.Unmarshal(arguments.FindSubmatch(m)[1], &object)
		return []byte(`"arguments":` + object)
	})
}

var arguments = regexp.MustCompile(`"arguments":("(?:[^"\\]|\\.)*")`)

// incidents are the five programs of deploy/examples/python as agents of the demo's fleet.
var incidents = []program{
	{run: "ok", service: one("incident-0", provider.DeepSeekPath, "deepseek-chat", func(int) conversation {
		return conversation{stage: planner, user: todo("Change the port", 2, "read_file", "write_file"), tools: []string{"read_file", "write_file"}, saver: dropsToolCalls()}
	})},
	{run: "error", service: one("incident-1", provider.OpenAIPath, "gpt-5-mini", func(i int) conversation {
		return conversation{stage: "assistant", user: todo(fmt.Sprint("Look around ", i), 6, "bash"), tools: []string{"bash"}, saver: repliesToTwo()}
	})},
	{run: "error", service: one("incident-2", provider.QwenPath, "qwen-plus", func(int) conversation {
		return conversation{stage: "extractor", user: todo("Extract every entity", 10, "extract"), tools: []string{"extract"}, saver: keepsLast()}
	})},
	{run: "error", goesOn: true, mangle: argumentsAsObject, service: service{
		name: "incident-3", path: provider.GeminiPath, model: "gemini-2.5-flash", task: func(int, string, *rand.Rand) (int, []conversation) {
			return 0, []conversation{
				{stage: "orchestrator", user: todo("What is new in Python?", 1, "web_search"), tools: []string{"web_search"}, saver: healthy},
				{stage: "orchestrator", user: "And when is the next release?", tools: []string{"web_search"}, saver: loadsReplies()},
			}
		},
	}},
	{run: "error", service: one("incident-4", provider.DeepSeekPath, "deepseek-chat", func(i int) conversation {
		trip := []string{toolNotify, toolRefund}[i%2]
		return conversation{stage: "travel", user: todo("I go to Rome", 2, "weather", trip), tools: []string{"weather", toolNotify, toolRefund}, saver: twoNodes(true)}
	})},
}

// demo is the fleet of the demo.
var demo = []program{{service: checkout}, {service: research}, {service: support}}

// The life of a problem in Slack, from the first failure to the end of its regression. The golden files are what the on-call
// person gets of the demo's defects and of each incident.
func TestTimelines(t *testing.T) {
	slowtest.Skip(t)
	f := func(name, service string, programs ...program) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.life(service, programs...)
				w.stop()
				alertstest.Golden(t, "timelines/"+name+".txt", w.log.text())
			})
		})
	}
	f("demo", checkout.name, demo...)
	for i, p := range incidents {
		f(fmt.Sprint("incident_", i), p.name, p)
	}
}

func (w *world) life(service string, programs ...program) {
	w.work(time.Hour, "2.3.9", false, programs...)
	w.note("2.4.0 is rolled out: it has the bugs")
	w.work(12*time.Minute, "2.4.0", true, programs...)
	w.acknowledge(service)
	w.decide(service, alerts.ProblemDecision{Action: alerts.ActionAssign, Assignee: anna})
	w.work(8*time.Minute, "2.4.0", true, programs...)
	w.note("2.4.1 is rolled out: it has no bugs")
	w.work(2*time.Minute, "2.4.1", false, programs...)
	w.decide(service, alerts.ProblemDecision{Action: alerts.ActionResolve, Version: "2.4.1"})
	w.work(65*time.Minute, "2.4.1", false, programs...)
	w.note("2.4.2 is rolled out: the bugs are back")
	w.work(15*time.Minute, "2.4.2", true, programs...)
	w.note("2.4.3 is rolled out: it has no bugs")
	w.work(40*time.Minute, "2.4.3", false, programs...)
}

// interleaves writes a reminder between a call and its reply.
func interleaves() saver {
	s := healthy
	s.answer = func(history []message, m message) []message {
		if len(m.ToolCalls) == 0 {
			return append(history, m)
		}
		return append(history, m, text("user", "Reminder: answer in one sentence."))
	}
	return s
}

// renames gives replies the name of the tool as their id.
func renames() saver {
	s := healthy
	s.replies = func(history []message, m message, run func(toolCall) string) []message {
		for _, c := range m.ToolCalls {
			history = append(history, reply(c.Function.Name, run(c)))
		}
		return history
	}
	return s
}

// Eight defects of seven stages, which several rules find each, are eight messages from their first failure to their end, also
// if the engine restarts while they fail and afterwards.
func TestEightDefects(t *testing.T) {
	slowtest.Skip(t)
	calls := func(s saver) func(i int) conversation {
		return func(i int) conversation {
			return conversation{stage: executor, user: todo(fmt.Sprint("Look around ", i), 2, "look"), tools: []string{"look"}, saver: s}
		}
	}
	programs := append(slices.Clone(incidents),
		program{service: one("interleaver", provider.OpenAIPath, "gpt-5-mini", calls(interleaves()))},
		program{service: one("renamer", provider.OpenAIPath, "gpt-5-mini", calls(renames()))})
	programs[3] = program{mangle: argumentsAsObject, service: one("incident-3", provider.GeminiPath, "gemini-2.5-flash", calls(healthy))}
	for i := range programs {
		programs[i].run = "ok" // each hides its failures
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		check := func(when, says string) {
			t.Helper()
			tops := slices.DeleteFunc(w.slack.Messages(), func(m slack.Message) bool { return m.ThreadTS != "" })
			for _, m := range tops {
				must.Contain(t, m.Text, says, when)
			}
			if len(tops) != 8 || t.Failed() {
				t.Fatalf("%s: %d messages\n%s", when, len(tops), w.log.text())
			}
		}
		w.work(10*time.Minute, "1", false, programs...)
		for i := range programs { // one after the other
			w.work(2*time.Minute, "2", true, programs[:i+1]...)
		}
		w.work(10*time.Minute, "2", true, programs...)
		check("while they fail", ": ")
		w.restart()
		w.work(2*time.Minute, "2", true, programs...)
		check("after a restart", ": ")
		w.work(30*time.Minute, "3", false, programs...)
		check("at the end", "RESOLVED")
		w.restart()
		w.work(10*time.Minute, "3", false, programs...)
		check("after a restart at the end", "RESOLVED")
		w.stop()
		for _, p := range w.problems {
			if len(p.Rules) < 2 && p.Service != "incident-4" { // whose stage has two, with a rule each
				t.Errorf("%s of %s was found by %v only", p.Cause, p.Service, p.Rules)
			}
		}
	})
}

// A timeline is what happens in Slack, as text.
type timeline struct {
	began    time.Time // the first failure; zero before
	lines    strings.Builder
	active   map[string]bool
	messages []*shown

	replies, mentions, edits int
}

// shown is a message as people see it, without the collapsed details.
type shown struct {
	ts      string
	lines   []string
	numbers int // edits since the last line about the message that changed only numbers
}

// failed is called for every failed call.
func (w *world) failed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.log.began.IsZero() {
		w.log.began = time.Now()
		w.log.add("first failure")
	}
}

func (l *timeline) add(format string, args ...any) {
	at := "before"
	if !l.began.IsZero() {
		at = "+" + time.Since(l.began).Round(time.Second).String()
	}
	fmt.Fprintf(&l.lines, "%-9s %s\n", at, fmt.Sprintf(format, args...))
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log.add("── "+format, args...)
}

func (l *timeline) quote(mark string, lines ...string) {
	for _, line := range lines {
		fmt.Fprintf(&l.lines, "%10s%s %s\n", "", mark, line)
	}
}

// firing adds the alerts that fire since the last call, and those that do not any more.
func (l *timeline) firing(list []alerts.Alert) {
	now := map[string]bool{}
	for _, a := range list {
		now[fmt.Sprintf("%s %s of %s/%s about %s", a.Severity(), a.Name, a.Labels["service"], a.Labels["stage"], a.Problem)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if !l.active[name] {
			l.add("fires: %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.active)) {
		if !now[name] {
			l.add("ends:  %s", name)
		}
	}
	l.active = now
}

// posted is called for every message and every edit.
func (w *world) posted(m slack.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &w.log
	text, _, _ := strings.Cut(slack.Text(m), "\n▸ ")
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.Trim(line, "═") == "" })
	if strings.Contains(m.Text, "<@") && m.Updates == 0 {
		l.mentions++
	}
	ts := m.TS
	if m.ThreadTS != "" {
		ts = m.ThreadTS
	}
	i := slices.IndexFunc(l.messages, func(s *shown) bool { return s.ts == ts })
	if i < 0 {
		l.messages = append(l.messages, &shown{ts: ts, lines: lines})
		l.add("MESSAGE %d", len(l.messages))
		l.quote("│", lines...)
		return
	}
	s := l.messages[i]
	if m.ThreadTS != "" {
		l.replies++
		l.rest(i)
		l.add("thread of %d", i+1)
		l.quote("└", lines...)
		return
	}
	l.edits++
	gone, come := differ(s.lines, lines), differ(lines, s.lines)
	s.lines = lines
	if len(gone)+len(come) == 0 {
		s.numbers++
		return
	}
	l.rest(i)
	l.add("edit of %d", i+1)
	l.quote("-", gone...)
	l.quote("+", come...)
}

// rest adds a line about the edits of a message that changed only numbers.
func (l *timeline) rest(i int) {
	if s := l.messages[i]; s.numbers > 0 {
		l.add("edit of %d, %d times: only numbers", i+1, s.numbers)
		s.numbers = 0
	}
}

var number = regexp.MustCompile(`( \([0-9]+ min\))|[0-9.]+`)

// differ returns the lines of a that b lacks, numbers aside.
func differ(a, b []string) (out []string) {
	kind := func(line string) string { return number.ReplaceAllString(line, "") }
	for _, line := range a {
		if !slices.ContainsFunc(b, func(other string) bool { return kind(other) == kind(line) }) {
			out = append(out, line)
		}
	}
	return out
}

// text returns the timeline and the number of notifications.
func (l *timeline) text() string {
	for i := range l.messages {
		l.rest(i)
	}
	return fmt.Sprintf("%s\nNotifications: %d (messages: %d, lines in threads: %d), of which %d mention somebody. Edits, which notify nobody: %d.\n",
		&l.lines, len(l.messages)+l.replies, len(l.messages), l.replies, l.mentions, l.edits)
}
