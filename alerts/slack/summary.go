package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/sent"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/ingest/quantity"
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
	// maxMentions bounds the mentions in one message.
	maxMentions = 10
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
	m.Rank, m.Severity = a.Rank()+1, wording.OneLine(a.Severity(), maxSeverity)
	m.Service, m.Headline, m.Failed = wording.OneLine(a.Labels["service"], maxWord), short(a), a.Evidence.Failed
	m.Cause = ""
	if s := a.Evidence.Shares; len(s) > 0 {
		m.Cause = wording.OneLine(s[0].ID(), maxWord)
	}
}

// short returns what a is about in a line on a phone, if it counts anything.
func short(a alerts.Alert) string {
	what := "failed"
	switch {
	case a.Evidence.Failed == 0, a.Evidence.CacheBroken():
		return wording.OneLine(wording.ShortSubject(a)+": "+wording.Counts(&a), 2*maxLine)
	case len(a.Evidence.Rules) > 0 && a.Evidence.Failed == 1:
		what = "finding"
	case len(a.Evidence.Rules) > 0:
		what = "findings"
	}
	text := fmt.Sprintf(": %s %s", quantity.Count(a.Evidence.Failed), what)
	name, room := wording.ShortSubject(a), maxLine-len(text)
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
	records *sent.Set[*summary]
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

// sendSummary posts or edits s after a change of the groups in list, which it adds.
func (n *Notifier) sendSummary(ctx context.Context, s *summary, groups []alerts.Group, list []int, to []destination) error {
	remind, missed, rank := false, true, s.Rank
	for _, i := range list {
		s.put(n.shown(groups[i]))
		missed = missed && groups[i].Missed
		remind = remind || groups[i].Repeat
		if !groups[i].Muted() {
			rank = max(rank, to[i].rank)
		}
	}
	missed = missed && s.firing() == 0
	var who []string
	for _, i := range list {
		if to[i].rank == rank && !groups[i].Muted() {
			for _, m := range to[i].mention {
				if (rank > s.Rank || !slices.Contains(s.Who, m)) && !slices.Contains(who, m) {
					who = append(who, m)
				}
			}
		}
	}
	err := n.showSummary(ctx, s, who, rank, remind, missed)
	if err != nil && !retryable(err) && !accountCodes[codeOf(err)] && s.TS == "" && s.Target != n.channel {
		if !errors.Is(err, errRejected) { // which is logged once
			n.log.Error("cannot send a summary of alerts to the channel of their route; sending it to slack.channel", "channel", s.Target, "error", err)
		}
		n.refused[s.Target] = time.Now()
		n.summaries.close(ctx, s)
		return &alerts.RetryError{Err: err} // the groups are new again
	}
	return n.later(err)
}

// showSummary posts or edits s and replies in its thread. who must be mentioned, and rank is the highest
// destination.rank. missed is set if all groups ended before people could be notified.
func (n *Notifier) showSummary(ctx context.Context, s *summary, who []string, rank int, remind, missed bool) error {
	m := s.render(n.access)
	mention := who[:min(len(who), maxMentions)]
	if s.TS == "" {
		found, err := n.find(ctx, s.NoticeID, &s.notice)
		if err != nil {
			return err
		}
		switch {
		case found:
			s.Rank, mention = rank, nil // the message mentions them
		case missed:
			n.summaries.close(ctx, s)
			return nil
		}
	}
	if s.TS != "" {
		gone, err := n.update(ctx, s.NoticeID, &s.notice, m)
		if err != nil {
			return err
		}
		if gone {
			n.log.Warn("summary of alerts no longer exists in slack; posting a new one")
			s.TS = ""
		}
	}
	var err error
	if s.TS == "" {
		err = n.post(ctx, s.NoticeID, &s.notice, m, mention, func() { n.summaries.save(ctx, s) })
	} else {
		err = n.replySummary(ctx, s, mention, rank, remind)
	}
	if err == nil {
		s.Rank, s.Who, s.Over = rank, append(s.Who, who...), s.firing() == 0
	}
	n.summaries.save(ctx, s)
	return err
}

// replySummary posts news of s to its thread: the end of all its groups, a higher severity, or a reminder.
func (n *Notifier) replySummary(ctx context.Context, s *summary, who []string, rank int, remind bool) error {
	firing, all := s.firing(), quantity.Count(len(s.Members))
	line, broadcast := "", false
	switch {
	case firing == 0 && !s.Over:
		line = fmt.Sprintf(":large_green_circle: Resolved after %s: all %s alerts", quantity.Span(s.UpdatedAt.Sub(s.Since)), all)
	case firing > 0 && s.Over:
		line = fmt.Sprintf(":bell: Firing again: %s of %s alerts", quantity.Count(firing), all)
	case rank > s.Rank && rank == criticalRank:
		critical := s.count(func(m *member) bool { return m.Firing && m.Rank == criticalRank })
		line = fmt.Sprintf(":red_circle: Now %s critical", quantity.Count(critical))
	case len(who) > 0:
		line = fmt.Sprintf(":bell: Now %s alerts are firing", quantity.Count(firing))
	case remind && firing > 0:
		line = fmt.Sprintf(":bell: Still firing after %s: %s of %s alerts", quantity.Span(s.UpdatedAt.Sub(s.Since)), quantity.Count(firing), all)
		broadcast = true
	default:
		return nil
	}
	return n.reply(ctx, &s.notice, who, line, broadcast)
}
