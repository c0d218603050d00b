package repair

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// A draft is a request while the steps of one round change it, from its last message to its first. Each step is applied to the
// messages that it touches alone, so that many repairs of a long history do not each cost a copy of it.
type draft struct {
	*fixing

	low   int         // no step has touched the messages before this one
	done  [][]byte    // texts of the messages from low on, the last first; each has the white space before it
	other []Operation // on other members of the request
}

// apply applies a step; done is false if it touches messages that another step has touched.
func (d *draft) apply(e *edit) (done bool, err error) {
	from, to, other := d.touched(e.ops)
	if len(other) > 0 {
		if len(other) < len(e.ops) {
			return false, nil // no fixer changes both
		}
		d.other = append(d.other, other...)
		return true, nil
	}
	if to > d.low {
		return false, nil
	}
	part := join(`[`, d.messages(from, to), `]`)
	for _, o := range e.ops {
		o.Path, o.From = d.within(o.Path, from), d.within(o.From, from)
		if part, err = apply(part, o); err != nil {
			return false, err
		}
	}
	part = part[1 : len(part)-1]
	if from == to {
		part = join(d.lead(from), part)
	}
	d.done = append(d.done, d.messages(to, d.low), part)
	d.low = from
	return true, nil
}

// touched returns the range of messages that operations touch: from is the first of them, and to is the index after the last one.
// An insertion before a message does not touch it. other are the operations on other members of the request.
func (d *draft) touched(ops []Operation) (from, to int, other []Operation) {
	from = len(d.request.Messages) + 1
	for _, o := range ops {
		source, path := -1, -1
		for k, pointer := range [...]string{o.From, o.Path} {
			i, inside, ok := d.index(pointer)
			if !ok {
				continue
			}
			after := i + 1
			if k == 0 {
				source = i
			} else if path = i; !inside && (o.Op == "add" || o.Op == "move") {
				if after = i; source >= 0 && source < i {
					after++ // the index is one less without the source
				}
			}
			from, to = min(from, i), max(to, after)
		}
		if source < 0 && path < 0 {
			other = append(other, o)
		}
	}
	return from, to, other
}

// index returns the message that a pointer is about; inside reports whether it is about a part of the message.
func (d *draft) index(pointer string) (i int, inside, ok bool) {
	rest, ok := strings.CutPrefix(pointer, d.base+"/")
	if !ok {
		return 0, false, false
	}
	token, _, inside := strings.Cut(rest, "/")
	i, err := strconv.Atoi(token)
	return i, inside, err == nil
}

// within returns a pointer in the array of the messages from index from on.
func (d *draft) within(pointer string, from int) string {
	i, _, ok := d.index(pointer)
	if !ok {
		return pointer
	}
	rest := pointer[len(d.base)+1:]
	return "/" + itoa(i-from) + strings.TrimPrefix(rest, itoa(i))
}

// messages returns the text of some messages, with the white space before the first one.
func (d *draft) messages(from, to int) []byte {
	if from >= to {
		return nil
	}
	all := d.request.Messages
	return d.body[all[from].Start-len(d.lead(from)) : all[to-1].End : all[to-1].End]
}

// lead returns the white space before message i, or before the last one if there is no message i.
func (d *draft) lead(i int) []byte {
	if n := len(d.request.Messages); n == 0 {
		return nil
	} else if i >= n {
		i = n - 1
	}
	return lead(d.body, d.request.Messages[i].Start)
}

// text returns the request after all steps.
func (d *draft) text() []byte {
	body := d.body
	if all := d.request.Messages; len(d.done) > 0 && len(all) > 0 {
		first := d.lead(0)
		start, end := all[0].Start-len(first), all[len(all)-1].End
		texts := [][]byte{body[:start]}
		some := false
		for _, text := range slices.Backward(append(d.done, d.messages(0, d.low))) {
			rest := bytes.TrimLeft(text, " \t\r\n")
			switch {
			case len(rest) == 0: // nothing is left of these messages
			case some:
				texts = append(texts, []byte(","), text)
			default:
				texts, some = append(texts, first, rest), true
			}
		}
		if !some {
			texts = append(texts, first)
		}
		body = slices.Concat(append(texts, body[end:])...)
	}
	for _, o := range d.other {
		if changed, err := apply(body, o); err == nil {
			body = changed
		}
	}
	return body
}
