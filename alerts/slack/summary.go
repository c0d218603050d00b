package slack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/records"
	"github.com/llmtap/llmtap/alerts/wording"
)

const (
	// maxSummaries bounds the stored summaries. A new one replaces the oldest of those that are over.
	maxSummaries = 16
	// maxMembers bounds the groups of a summary, so that its record stays below 1 MB, the limit of a value in NATS, even if
	// all names consist of characters that JSON escapes.
	maxMembers = 700
	// maxWorst is the number of groups that a summary shows.
	maxWorst = 5
	// maxLine is the length of a line on a phone, in characters, and maxCode that of names in code. A summary has at most ten lines.
	maxLine = 40
	maxCode = 24
	maxWord = 40
	// loadFor is the time for which notifications wait for a Store that cannot be read, and loadRetry the time between two attempts.
	loadFor   = time.Minute
	loadRetry = 5 * time.Second
)

// A summary is one message about many groups in one channel. Its record is all that its text needs: the groups that did not change
// are not read again.
type summary struct {
	record
	Began   time.Time `json:"began"` // wall time
	Since   time.Time `json:"since"` // stream time of the first alert
	Members []*member `json:"members"`
	Moved   int       `json:"moved"` // former members that have a message of their own
	Rank    int       `json:"rank"`  // highest destination.rank that was sent
	Who     []string  `json:"who"`   // who has been mentioned
	Over    bool      `json:"over"`  // people were told that all groups are resolved

	members map[string]*member // by member.Group
}

// A member is the state of a group in a summary. Texts come from labels and are not escaped.
type member struct {
	Group    string    `json:"group"`   // GroupID
	Updated  time.Time `json:"updated"` // stream time
	Firing   bool      `json:"firing"`
	Rank     int       `json:"rank"` // of the worst firing alert, or of the last one
	Severity string    `json:"severity"`
	Service  string    `json:"service"`
	Headline string    `json:"headline"`
	Cause    string    `json:"cause"`
	Failed   uint64    `json:"failed"`
	Muted    bool      `json:"muted"`
	Acked    bool      `json:"acked"`
}

// set replaces the state of m by that of g.
func (m *member) set(g alerts.Group) {
	a := g.Worst()
	m.Updated, m.Firing, m.Muted, m.Acked = g.Updated(), g.Firing(), g.Muted(), g.Ack != nil
	m.Rank, m.Severity = a.Rank()+1, oneLine(a.Severity(), maxSeverity)
	m.Service, m.Headline, m.Failed = oneLine(a.Labels["service"], maxWord), short(a), a.Evidence.Failed
	m.Cause = ""
	if s := a.Evidence.Shares; len(s) > 0 {
		m.Cause = oneLine(cmp.Or(s[0].RootCause, s[0].Cause), maxWord)
	}
}

// short returns what a is about in a line on a phone, if it counts anything.
func short(a alerts.Alert) string {
	what := "failed"
	switch {
	case a.Evidence.Failed == 0:
		return oneLine(subject(a)+": "+wording.Counts(&a), 2*maxLine)
	case len(a.Evidence.Rules) > 0 && a.Evidence.Failed == 1:
		what = "finding"
	case len(a.Evidence.Rules) > 0:
		what = "findings"
	}
	text := fmt.Sprintf(": %s %s", wording.Number(a.Evidence.Failed), what)
	name, room := subject(a), maxLine-len(text)
	if service, stage, ok := strings.Cut(name, "/"); ok && utf8.RuneCountInString(name) > room { // both matter
		name = wording.Truncate(service, max(room/2, room-1-utf8.RuneCountInString(stage))) + "/" + stage
	}
	return wording.Truncate(name, room) + text
}

// of returns the member that is this incident of g, or nil.
func (s *summary) of(g alerts.Group) *member {
	if s.members == nil {
		s.members = map[string]*member{}
		for _, m := range s.Members {
			s.members[m.Group] = m
		}
	}
	if m := s.members[alerts.GroupID(g.Key)]; m != nil && !g.Since().After(m.Updated) {
		return m
	}
	return nil
}

// put adds g, or replaces its state.
func (s *summary) put(g alerts.Group) {
	m := s.of(g)
	if m == nil {
		id := alerts.GroupID(g.Key)
		if s.members[id] != nil { // an earlier incident
			s.drop(id)
		}
		m = &member{Group: id}
		s.Members, s.members[id] = append(s.Members, m), m
	}
	m.set(g)
	if t := g.Since(); s.Since.IsZero() || t.Before(s.Since) {
		s.Since = t
	}
	if m.Updated.After(s.UpdatedAt) {
		s.UpdatedAt = m.Updated
	}
}

func (s *summary) drop(group string) {
	delete(s.members, group)
	s.Members = slices.DeleteFunc(s.Members, func(m *member) bool { return m.Group == group })
}

// count returns the number of members for which is returns true.
func (s *summary) count(is func(*member) bool) (n int) {
	for _, m := range s.Members {
		if is(m) {
			n++
		}
	}
	return n
}

func (s *summary) firing() int { return s.count(func(m *member) bool { return m.Firing }) }

// summaries are the summaries of a notifier, by slot.
type summaries struct {
	records *records.Set[*summary]
	slots   [maxSummaries]*summary // nil: empty
	loaded  bool
	tried   time.Time // first attempt to load them that failed; zero after a success
}

// load reads the stored summaries if they have not been read, or if another process may have changed them. It returns an error while the
// Store cannot be read, because the groups of a summary would be sent in a second one. After loadFor, the groups matter more.
func (l *summaries) load(ctx context.Context) error {
	if l.records.Refresh() {
		l.loaded = false
	}
	if l.loaded {
		return nil
	}
	var slots [maxSummaries]*summary
	for i := range slots {
		s, ok, err := l.records.Read(ctx, strconv.Itoa(i))
		if err != nil {
			if l.tried.IsZero() {
				l.tried = time.Now()
			}
			if time.Since(l.tried) < loadFor {
				return &alerts.RetryError{After: loadRetry, Down: true, Err: fmt.Errorf("read the summaries of alerts that were sent: %w", err)}
			}
			break
		}
		if ok && s != nil && s.NoticeID != "" {
			slots[i] = s
		}
	}
	l.slots, l.loaded, l.tried = slots, true, time.Time{}
	return nil
}

func (l *summaries) save(ctx context.Context, s *summary) {
	if i := slices.Index(l.slots[:], s); i >= 0 {
		l.records.Save(ctx, strconv.Itoa(i), s)
	}
}

// open returns a new summary, which replaces one that is over if there is no empty slot, and otherwise the oldest: its groups
// then get messages of their own when they change.
func (l *summaries) open(g alerts.Group, channel string) *summary {
	now := time.Now().UTC()
	s := &summary{record: record{NoticeID: noticeID(alerts.Group{Key: "summary of " + g.Key, Alerts: []alerts.Alert{{StartsAt: now}}}), notice: newNotice(channel)}, Began: now}
	at := slices.IndexFunc(l.slots[:], func(s *summary) bool { return s == nil })
	if at < 0 {
		at = 0
		for i, o := range l.slots {
			if x := l.slots[at]; o.Over && !x.Over || o.Over == x.Over && o.Began.Before(x.Began) {
				at = i
			}
		}
	}
	l.slots[at] = s
	return s
}

// close removes s.
func (l *summaries) close(ctx context.Context, s *summary) {
	i := slices.Index(l.slots[:], s)
	l.slots[i] = nil
	l.records.Save(ctx, strconv.Itoa(i), &summary{})
}

// of returns the summary and the member of this incident of g, or nil.
func (l *summaries) of(g alerts.Group) (*summary, *member) {
	for _, s := range l.slots {
		if s != nil {
			if m := s.of(g); m != nil {
				return s, m
			}
		}
	}
	return nil, nil
}

// render returns the message of s.
func (s *summary) render(access alerts.Access) message {
	firing := slices.DeleteFunc(slices.Clone(s.Members), func(m *member) bool { return !m.Firing })
	title := s.title(firing)
	about := firing
	if len(firing) == 0 {
		about = s.Members
	}
	m := message{text: escape(title)}
	m.blocks = append(m.blocks, slack.NewHeaderBlock(slack.NewTextBlockObject(slack.PlainTextType, wording.Truncate(title, maxHeader), true, false)))
	m.context(s.status())
	var lines []string
	if where := services(about); where != "" {
		m.text += ". " + where
		lines = append(lines, where)
	}
	if cause := mostly(about); cause != "" {
		m.text += ". Why: " + cause
		lines = append(lines, "*Why:* "+cause)
	}
	if lines = append(lines, worst(firing)...); len(lines) > 0 {
		m.section("", lines...)
	}
	m.context(s.all(len(firing), access))
	return m
}

// all returns the line about where all members are.
func (s *summary) all(firing int, access alerts.Access) string {
	which := fmt.Sprintf("all %s", wording.Number(uint64(len(s.Members))))
	if firing > 0 {
		which = fmt.Sprintf("all %s that fire", wording.Number(uint64(firing)))
	}
	if access.ExternalURL != "" {
		return "<" + escape(strings.TrimRight(access.ExternalURL, "/")) + "/|Open " + which + ">"
	}
	line := "For " + which + ": `" + plain(wording.Command(access, "query", "alerts"), maxText) + "`"
	if access.Host != "" {
		line += " on " + code(access.Host)
	}
	return line
}

// title returns the headline, which is not escaped.
func (s *summary) title(firing []*member) string {
	n := wording.Number(uint64(len(s.Members)))
	if len(firing) == 0 {
		return fmt.Sprintf(":large_green_circle: RESOLVED: all %s alerts", n)
	}
	worst, critical := firing[0], 0
	for _, m := range firing {
		if m.Rank > worst.Rank {
			worst = m
		}
		if m.Rank == criticalRank {
			critical++
		}
	}
	top := severityIcon(worst.Severity)
	count := fmt.Sprintf("%s alerts are firing", n)
	switch {
	case len(firing) == 1:
		count = fmt.Sprintf("1 of %s alerts is firing", n)
	case len(firing) < len(s.Members):
		count = fmt.Sprintf("%s of %s alerts are firing", wording.Number(uint64(len(firing))), n)
	}
	if critical > 0 {
		count += fmt.Sprintf(", %s critical", wording.Number(uint64(critical)))
	}
	return oneLine(top+" "+count, maxHeader)
}

// services names the services with the most members in one line. It is empty if none has a service.
func services(list []*member) string {
	names, _ := frequent(list, func(m *member) string { return m.Service })
	if len(names) == 0 {
		return ""
	}
	text, width := "In "+shortCode(names[0], maxCode), utf8.RuneCountInString(names[0])
	for i, name := range names[1:] {
		if width += utf8.RuneCountInString(name) + 1; width > maxCode {
			return fmt.Sprintf("%s and %s more", text, wording.Number(uint64(len(names)-1-i)))
		}
		text += ", " + code(name)
	}
	return text
}

// mostly names the most frequent cause. It is empty if none is known.
func mostly(list []*member) string {
	causes, n := frequent(list, func(m *member) string { return m.Cause })
	if len(causes) == 0 {
		return ""
	}
	which := "all"
	if k := n[causes[0]]; k < len(list) {
		which = wording.Number(uint64(k))
	}
	return fmt.Sprintf("%s (%s)", shortCode(causes[0], maxWord), which)
}

// frequent returns the values of the members that have one, the most frequent first, and their numbers of members.
func frequent(list []*member, value func(*member) string) (values []string, n map[string]int) {
	n = map[string]int{}
	for _, m := range list {
		if v := value(m); v != "" {
			n[v]++
		}
	}
	return slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[b]-n[a], strings.Compare(a, b)) }), n
}

// status returns the line about the state of all members.
func (s *summary) status() string {
	parts := []string{"Since " + minute(s.Since)}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", wording.Number(uint64(n)), what))
		}
	}
	add(s.count(func(m *member) bool { return m.Firing && m.Acked }), "acknowledged")
	add(s.count(func(m *member) bool { return m.Firing && m.Muted }), "muted")
	add(s.Moved, "in messages of their own")
	return strings.Join(parts, " · ")
}

// worst returns the lines about the worst firing members.
func worst(firing []*member) (lines []string) {
	muted := func(m *member) int {
		if m.Muted {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(firing, func(a, b *member) int {
		return cmp.Or(muted(a)-muted(b), cmp.Compare(b.Rank, a.Rank), cmp.Compare(b.Failed, a.Failed), strings.Compare(a.Headline, b.Headline))
	})
	for _, m := range firing[:min(len(firing), maxWorst)] {
		lines = append(lines, severityIcon(m.Severity)+" "+strings.ReplaceAll(plain(m.Headline, maxHeader), "*", "∗"))
	}
	return lines
}
