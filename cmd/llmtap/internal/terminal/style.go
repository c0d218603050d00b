package terminal

import (
	"cmp"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"
)

// A Style is how a command writes text: the width of lines, the zone of times and the use of colors. It does not apply to
// JSON and CSV, whose times are RFC 3339 in UTC.
type Style struct {
	Width    int            // in columns; 0: Wrap keeps lines whole
	Zone     *time.Location // nil: UTC
	Color    bool
	Unbroken bool // Wrap keeps lines whole, because a file or a pipe has no width

	start string // of a color; "": csi
}

// NewStyle returns the style of text on w: local times, and colors if w is a terminal and NO_COLOR is not set.
func NewStyle(w io.Writer, getenv func(string) string) *Style {
	s := &Style{Width: widthOf(w, getenv), Zone: time.Local, Color: IsTerminal(w) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
	if _, ok := w.(*Writer); ok {
		s.start = colorStart
	}
	if s.Width == 0 {
		s.Width, s.Unbroken = DefaultWidth, true
		if file(w) == os.Stdout {
			s.Width = cmp.Or(size(os.Stderr), DefaultWidth) // a table in a pipe to less or head
		}
	}
	return s
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f := file(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// widthOf returns the number of columns of w: $COLUMNS, else the size of the terminal, else 0.
func widthOf(w io.Writer, getenv func(string) string) int {
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f := file(w); f != nil {
		return size(f)
	}
	return 0
}

// size returns the number of columns of a terminal, or 0.
func size(f *os.File) int {
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// Wrap breaks text into lines that fit the terminal and joins them. The first line begins with first, the others with
// indent.
func (s *Style) Wrap(first, text, indent string) string {
	if s.Unbroken || s.Width == 0 || Columns(first)+Columns(text) <= s.Width {
		return first + text
	}
	return strings.Join(wrap(first, text, s.Width, indent), "\n")
}

// In returns t in the zone of s.
func (s *Style) In(t time.Time) time.Time {
	if s.Zone == nil {
		return t.UTC()
	}
	return t.In(s.Zone)
}

// Time formats t with its zone, such as 2026-11-20 05:07:02 CET. The zero time and the Unix epoch, which is the zero time
// of ClickHouse, are "".
func (s *Style) Time(t time.Time) string {
	if t.IsZero() || t.Unix() == 0 {
		return ""
	}
	return s.In(t).Format("2006-01-02 15:04:05 MST")
}

// Clock formats the time of day of t without its zone, for lines whose date and zone are known.
func (s *Style) Clock(t time.Time) string { return s.In(t).Format(time.TimeOnly) }

// Bold returns text with the terminal commands for bold, if s has colors; the methods below do so for a color. Pad and wrap
// the text first, because the commands have no width.
func (s *Style) Bold(text string) string { return s.paint("1", text) }

// Dim is like Bold.
func (s *Style) Dim(text string) string { return s.paint("2", text) }

// Red is like Bold.
func (s *Style) Red(text string) string { return s.paint("31", text) }

// Green is like Bold.
func (s *Style) Green(text string) string { return s.paint("32", text) }

// Yellow is like Bold.
func (s *Style) Yellow(text string) string { return s.paint("33", text) }

func (s *Style) paint(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	start := cmp.Or(s.start, csi)
	return start + code + "m" + text + start + "0m"
}
