package silence

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxComment = 1024 // bytes
	maxAuthor  = 256  // bytes
	maxID      = 64   // bytes
)

// A Silence suppresses the notifications of the alerts that it matches. Its JSON is that of Alertmanager's API, version 2.
type Silence struct {
	ID        string    `json:"id"` // matches [a-zA-Z0-9-]+
	Matchers  Matchers  `json:"matchers"`
	StartsAt  time.Time `json:"startsAt"`
	EndsAt    time.Time `json:"endsAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	CreatedBy string    `json:"createdBy"`
	Comment   string    `json:"comment"`
}

// A State is the state of a silence at a time.
type State string

// The states of a silence.
const (
	Pending State = "pending"
	Active  State = "active"
	Expired State = "expired"
)

// State returns the state of s at a time.
func (s *Silence) State(at time.Time) State {
	switch {
	case at.Before(s.StartsAt):
		return Pending
	case at.Before(s.EndsAt):
		return Active
	}
	return Expired
}

// Active reports whether s suppresses notifications at a time.
func (s *Silence) Active(at time.Time) bool { return s.State(at) == Active }

// Matches reports whether s matches an alert. The label alertname is the name of its rule.
func (s *Silence) Matches(alertname string, labels map[string]string) bool {
	return s.Matchers.Match(alertname, labels)
}

// Validate returns all errors, joined.
func (s *Silence) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if err := s.Matchers.Validate(); err != nil {
		errs = append(errs, err)
	}
	check(!s.StartsAt.IsZero(), "the start is missing")
	check(!s.EndsAt.IsZero(), "the end is missing")
	check(s.StartsAt.Before(s.EndsAt) || s.EndsAt.IsZero(), "the end is not after the start")
	check(strings.TrimSpace(s.Comment) != "", "the comment is missing")
	check(strings.TrimSpace(s.CreatedBy) != "", "the author is missing")
	check(len(s.Comment) <= maxComment, "the comment is longer than %d bytes", maxComment)
	check(len(s.CreatedBy) <= maxAuthor, "the author is longer than %d bytes", maxAuthor)
	check(utf8.ValidString(s.Comment+s.CreatedBy), "the comment or the author is not UTF-8")
	check(ValidID(s.ID), "%.80q is not the id of a silence", s.ID)
	return errors.Join(errs...)
}

// ValidID reports whether id can be the id of a silence.
func ValidID(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	})
}

// Tomorrow returns 9:00 of the day after now, in the zone of now: the usual end of a silence overnight.
func Tomorrow(now time.Time) time.Time {
	y, m, d := now.Date()
	return time.Date(y, m, d+1, 9, 0, 0, 0, now.Location())
}
