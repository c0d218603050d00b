package session

// links and list are a list of conversations without allocation.
type links struct{ before, after *conversation }

type list struct {
	first, last *conversation
	of          func(*conversation) *links
}

func (l *list) push(c *conversation) {
	*l.of(c) = links{before: l.last}
	if l.last != nil {
		l.of(l.last).after = c
	} else {
		l.first = c
	}
	l.last = c
}

func (l *list) remove(c *conversation) {
	n := *l.of(c)
	if n.before != nil {
		l.of(n.before).after = n.after
	} else {
		l.first = n.after
	}
	if n.after != nil {
		l.of(n.after).before = n.before
	} else {
		l.last = n.before
	}
	*l.of(c) = links{}
}
