package terminal

import (
	"fmt"
	"io"
	"time"
)

const progressInterval = 200 * time.Millisecond

// Progress writes messages and, on a terminal, a status line below them.
type Progress struct {
	w     io.Writer
	live  bool // w is a terminal
	next  time.Time
	shown bool
}

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress { return &Progress{w: w, live: IsTerminal(w)} }

// Printf writes a message line.
func (p *Progress) Printf(format string, args ...any) {
	p.Clear()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// Status replaces the status line, at most every 200 ms.
func (p *Progress) Status(format string, args ...any) {
	if now := time.Now(); p.live && now.After(p.next) {
		p.next, p.shown = now.Add(progressInterval), true
		fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
	}
}

// Clear removes the status line.
func (p *Progress) Clear() {
	if p.shown {
		p.shown = false
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
