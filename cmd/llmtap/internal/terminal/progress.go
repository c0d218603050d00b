package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const progressInterval = 200 * time.Millisecond

// Progress writes messages and, on a terminal, a status line below them. It is safe for concurrent use.
type Progress struct {
	live bool // w is a terminal

	mu    sync.Mutex // guards the fields below
	w     io.Writer
	raw   io.Writer // the same, for the commands of the status line
	next  time.Time
	shown bool
}

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{w: w, raw: w, live: IsTerminal(w)}
	if out, ok := w.(*Writer); ok {
		p.raw = out.w
	}
	return p
}

// Printf writes a message line.
func (p *Progress) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// Status replaces the status line, at most every 200 ms.
func (p *Progress) Status(format string, args ...any) {
	if !p.live {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.After(p.next) {
		p.next, p.shown = now.Add(progressInterval), true
		fmt.Fprint(p.raw, "\r\x1b[K"+Escape(fmt.Sprintf(format, args...)))
	}
}

// Clear removes the status line.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *Progress) clear() {
	if p.shown {
		p.shown = false
		fmt.Fprint(p.raw, "\r\x1b[K")
	}
}
