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

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
)

const (
	// maxSummaries bounds the stored summaries. A new one replaces the oldest of those that are over.
	maxSummaries = 16
	// maxMembers bounds the groups of a summary, so that its record stays below 1 MB, the limit of a value in NATS, even if
	// all names consist of characters that JSON escapes.
	maxMembers = 700
	// maxWorst is the number of groups that a summary shows.
	maxWorst = 5
	// maxServices is the number of services that a summary names.
	maxServices = 5
	maxHeadline = 90
	maxWord     = 40
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
	m.Service, m.Headline, m.Failed = oneLine(a.Labels["service"], maxWord), oneLine(headline(a), maxHeadline), a.Evidence.Failed
	m.Cause = ""
	if s := a.Evidence.Shares; len(s) > 0 {
		m.Cause = oneLine(cmp.Or(s[0].RootCause, s[0].Cause), maxWord)
	}
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
	records *alerts.Records[*summary]
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
	var lines []string
	m := message{text: escape(title)}
	if where := services(about); where != "" {
		m.text += ". " + where
		lines = append(lines, where)
	}
	m.blocks = append(m.blocks, slack.NewHeaderBlock(slack.NewTextBlockObject(slack.PlainTextType, alerts.Truncate(title, maxHeader), true, false)))
	m.section("", append(lines, s.status(len(firing)))...)
	if len(firing) > 0 {
		m.section("Worst", worst(firing)...)
	}
	all := "`" + plain(access.Command("query", "alerts"), maxText) + "`"
	if access.ExternalURL != "" {
		all = "<" + escape(strings.TrimRight(access.ExternalURL, "/")) + "/|in the browser>, or with " + all
	} else if access.Host != "" {
		all += " on " + code(access.Host)
	}
	more := "All of them: "
	if n := len(firing) - maxWorst; n > 0 {
		more = fmt.Sprintf("… and %s more: ", alerts.Number(uint64(n)))
	}
	m.section("", more+all)
	return m
}

// title returns the headline, which is not escaped.
func (s *summary) title(firing []*member) string {
	n := alerts.Number(uint64(len(s.Members)))
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
	top := icon(alerts.Alert{State: alerts.Firing, Labels: map[string]string{"severity": worst.Severity}})
	count := fmt.Sprintf("%s alerts are firing", n)
	switch {
	case len(firing) == 1:
		count = fmt.Sprintf("1 of %s alerts is firing", n)
	case len(firing) < len(s.Members):
		count = fmt.Sprintf("%s of %s alerts are firing", alerts.Number(uint64(len(firing))), n)
	}
	if critical > 0 {
		count += fmt.Sprintf(", %s critical", alerts.Number(uint64(critical)))
	}
	return oneLine(top+" "+count, maxHeader)
}

// services names the services with the most members. It is empty if none has a service.
func services(list []*member) string {
	n := map[string]int{}
	for _, m := range list {
		if m.Service != "" {
			n[m.Service]++
		}
	}
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[b]-n[a], strings.Compare(a, b)) })
	if len(names) == 0 {
		return ""
	}
	var out []string
	for _, name := range names[:min(len(names), maxServices)] {
		out = append(out, fmt.Sprintf("%s (%s)", code(name), alerts.Number(uint64(n[name]))))
	}
	text := "In " + strings.Join(out, ", ")
	if more := len(names) - maxServices; more > 0 {
		return fmt.Sprintf("%s and %s more services", text, alerts.Number(uint64(more)))
	}
	return text
}

// status returns the line about the state of all members.
func (s *summary) status(firing int) string {
	parts := []string{"Since " + date(s.Since)}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", alerts.Number(uint64(n)), what))
		}
	}
	if firing > 0 {
		add(len(s.Members)-firing, "resolved")
	}
	add(s.count(func(m *member) bool { return m.Firing && m.Acked }), "acknowledged")
	add(s.count(func(m *member) bool { return m.Firing && m.Muted }), "silenced or part of another alert")
	add(s.Moved, "with a message of their own")
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
		line := "• " + plain(m.Headline, maxHeadline)
		if m.Cause != "" {
			line += " · " + code(m.Cause)
		}
		lines = append(lines, line)
	}
	return lines
}
