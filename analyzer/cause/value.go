package cause

import "bytes"

// A key is the name of a value.
type key struct {
	name  []byte
	start int // index of the name or of its quote
}

// keyBefore returns the key that ends before the separator text[i], if it starts at or after from.
func keyBefore(text []byte, i, from int) key {
	end := i
	for end > from && text[end-1] == ' ' {
		end--
	}
	quote := byte(0)
	if end > from && isQuote(text[end-1]) {
		quote = text[end-1]
		for end--; end > from && text[end-1] == '\\'; end-- {
		}
	}
	start := end
	for start > from && end-start <= maxName && isName(text[start-1]) {
		start--
	}
	k := key{name: text[start:end], start: start}
	switch {
	case start == end || end-start > maxName:
		return key{}
	case quote != 0:
		if start == from || text[start-1] != quote {
			return key{}
		}
		for k.start--; k.start > from && text[k.start-1] == '\\'; k.start-- {
		}
	case start > from && bytes.IndexByte([]byte(" \t\n\r{[(,<>"), text[start-1]) < 0:
		return key{}
	}
	return k
}

// isName reports whether c may be part of a key.
func isName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

func isQuote(c byte) bool { return c == '"' || c == '\'' }

// Kinds of values.
const (
	plainValue  = iota // null, a number, a word, or the rest of a sentence
	stringValue        // in quotes
	listValue          // in square brackets
	objectValue        // in other brackets
	lineValue          // the rest of the line, in YAML
	blockValue         // the lines below, in YAML
)

// A value is the value of a key, with the index of its first byte.
type value struct {
	kind, at int
}

// valueAt returns the value at text[i], after white space.
func (r *reader) valueAt(i, end int) value {
	text := r.text[:end]
	for i < end && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	if i == end {
		return value{plainValue, i}
	}
	switch c := text[i]; c {
	case '\n', '\r':
		return value{blockValue, i}
	case '|', '>':
		if eol := bytes.IndexByte(text[i:min(end, i+4)], '\n'); eol > 0 {
			return value{blockValue, i}
		}
	case '[':
		return value{listValue, i}
	case '{', '(':
		return value{objectValue, i}
	}
	if n := opening(text, i); n > 0 {
		return value{stringValue, i}
	}
	// The repr of an object: Name(…).
	j := i
	for j < end && j-i < maxName && isName(text[j]) {
		j++
	}
	if j > i && j < end && text[j] == '(' {
		return value{objectValue, i}
	}
	return value{plainValue, i}
}

// endOf returns the end of a value in text[:end].
func (r *reader) endOf(v value, end int) int {
	text := r.text[:end]
	switch v.kind {
	case stringValue:
		at, _ := endOfString(text, v.at)
		return at
	case listValue, objectValue:
		i := v.at
		for i < end && isName(text[i]) {
			i++
		}
		return r.brackets(i, end, false).end
	}
	i := v.at
	for i < end && isName(text[i]) {
		i++
	}
	return i
}

// opening returns the length of the start of a string at text[i]: the backslashes of its level of escaping, its quote, and the
// letter before a Python string. It is 0 if no string starts there.
func opening(text []byte, i int) int {
	j := i
	if j+1 < len(text) && (text[j] == 'b' || text[j] == 'r' || text[j] == 'u') && isQuote(text[j+1]) {
		j++
	}
	for j < len(text) && text[j] == '\\' {
		j++
	}
	if j == len(text) || !isQuote(text[j]) {
		return 0
	}
	return j + 1 - i
}

// opensString is opening for a quote within brackets, where an apostrophe does not start a string.
func opensString(text []byte, i int) int {
	n := opening(text, i)
	if n == 0 {
		return 0
	}
	for k := i - 1; k >= 0; k-- {
		switch c := text[k]; c {
		case ' ', '\n', '\t', '\r':
		case '{', '[', '(', ',', ':', '=':
			return n
		case 'b', 'r', 'u', 'n', 't':
			if k == 0 || isName(text[k-1]) {
				return 0
			}
			for k > 0 && text[k-1] == '\\' { // an escaped line end
				k--
			}
		default:
			return 0
		}
	}
	return n
}

// endOfString returns the end of the string at text[i]. ok is false if the string does not end; it is then cut off at the next
// record of a log, or at the end of the text.
func endOfString(text []byte, i int) (end int, ok bool) {
	start := i
	n := opening(text, i)
	i += n
	mark := text[i-1]
	level := 0 // backslashes before a quote of this level of escaping
	for k := i - 2; k >= start && text[k] == '\\'; k-- {
		level++
	}
	from := i
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n' && startsRecord(text[i+1:]):
			return i, false
		case c != mark:
			continue
		}
		before := 0
		for i-before > from && text[i-before-1] == '\\' {
			before++
		}
		if before < level {
			return i - before, false // the end of the string that contains this one
		}
		if before%(2*(level+1)) == level && endsValue(text, i+1) {
			return i + 1, true
		}
	}
	return i, false
}

// endsValue reports whether a value may end before text[i], because another member, a bracket or nothing follows.
func endsValue(text []byte, i int) bool {
	spaces := 0
	for i < len(text) && text[i] == ' ' {
		i++
		spaces++
	}
	if i == len(text) {
		return true
	}
	switch text[i] {
	case ',', '}', ']', ')', ':', ';', '\n', '\r', '\\', '"', '\'', '=', '|':
		return true
	}
	j := i
	for j < len(text) && j-i < maxName && isName(text[j]) {
		j++
	}
	return spaces > 0 && j > i && j < len(text) && text[j] == '='
}

// brackets is a balanced part of a text, such as an object.
type brackets struct {
	end     int
	traffic bool // the members are those of a request, an answer or a part of them, and none states an error
}

// brackets reads the brackets that open at text[i]. Brackets that do not close end at the next line that is not indented. If
// members is set, it looks at their keys.
func (r *reader) brackets(i, end int, members bool) brackets {
	var b brackets
	text := r.text[:end]
	if members && r.ahead <= 0 {
		return b
	}
	var open [maxDepth]byte
	n, from := 0, i
	var m memberSet
	for ; i < end; i++ {
		switch c := text[i]; c {
		case '{', '[', '(':
			if c == '(' && i > from && !isName(text[i-1]) && text[i-1] != '[' && text[i-1] != ' ' && text[i-1] != '(' {
				continue
			}
			if n == maxDepth {
				b.end = i
				r.ahead -= i - from
				return b
			}
			open[n] = c
			n++
		case '}', ']', ')':
			opener := c - 2
			if c == ')' {
				opener = '('
			}
			at := n - 1
			for at >= 0 && open[at] != opener && c != ')' {
				at--
			}
			if at < 0 || open[at] != opener {
				continue
			}
			if n = at; n == 0 {
				i++
				b.end = i
				b.traffic = m.areTraffic()
				r.ahead -= i - from
				return b
			}
		case '"', '\'', '\\':
			if opensString(text, i) > 0 {
				i, _ = endOfString(text, i)
				i--
			}
		case '\n':
			if i+1 < end && isWord(text[i+1]|0x20) {
				b.end, b.traffic = i, m.areTraffic()
				r.ahead -= i - from
				return b
			}
		case ':', '=':
			if !members || n != 1 {
				continue
			}
			k := keyBefore(text, i, from)
			if k.name == nil {
				continue
			}
			v := r.valueAt(i+1, end)
			m.add(k.name, v, text)
		}
	}
	b.end, b.traffic = i, m.areTraffic()
	r.ahead -= i - from
	return b
}
