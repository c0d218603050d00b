package cause

import "bytes"

// Bounds of reading a text for its statements.
const (
	maxRead     = 16 << 10 // bytes from the start of a text that Classify reads
	maxAhead    = 48 << 10 // bytes that Classify reads ahead in brackets
	maxDepth    = 64       // depth of brackets; deeper ones are read as text
	maxTemplate = 512      // bytes of a statement of a chat template
	maxName     = 64       // bytes of a key, and of the text after a quote that shows whether it ends a string
)

// Statements appends to dst the parts of text that can state an error. Traffic is left out: requests and answers, and the
// values that an error repeats of them, as JSON, as the repr of Python or as YAML, escaped any number of times. A message of
// a conversation may contain the wording of any error. traffic reports whether something was left out.
func Statements(dst, text []byte) (stated []byte, traffic bool) {
	r := reader{text: text, ahead: maxAhead + 4*len(text), limit: len(dst) + 2*len(text) + maxName}
	return r.read(dst), r.traffic
}

// statements appends the start and the end of the statements of text to dst, at most maxText bytes. Unlike Statements, it takes
// bounded time.
func statements(dst, text []byte) []byte {
	r := reader{text: text[:min(len(text), maxRead)], ahead: maxAhead, limit: maxText}
	dst = r.read(dst)
	if r.end == len(text) && len(dst) <= maxText {
		return dst
	}
	start := max(r.end, len(text)-maxTail)
	tail := reader{text: text[start:], ahead: maxAhead, limit: maxText}
	if r.open {
		tail.inside = endOfOpen(tail.text)
	} else {
		tail.inside = r.trafficAround(text, start) - start
	}
	dst = append(dst[:min(len(dst), maxText-maxTail)], ".\n"...)
	return tail.read(dst)
}

// endOfOpen returns the end of a request or an answer that began before text: its last bracket before a line that is not indented.
func endOfOpen(text []byte) int {
	for from := 0; ; {
		n := bytes.IndexByte(text[from:], '\n')
		if n < 0 {
			break
		}
		if from += n + 1; from < len(text) && isWord(text[from]|0x20) {
			text = text[:from-1]
			break
		}
	}
	return bytes.LastIndexAny(text, "}]") + 1
}

// trafficAround returns the end of the request or answer in text, in a line of its own or of a stream, that contains text[at]; at
// if there is none.
func (r *reader) trafficAround(text []byte, at int) int {
	from := max(r.end, at-maxRead)
	n := bytes.LastIndexByte(text[from:at], '\n')
	if n < 0 {
		return at
	}
	i := from + n + 1
	if bytes.HasPrefix(text[i:], dataField) {
		i += len(dataField)
	}
	if i < at && text[i] == ' ' {
		i++
	}
	if i == at || text[i] != '{' {
		return at
	}
	line := reader{text: text, ahead: r.ahead}
	if b := line.brackets(i, len(text), true); b.traffic {
		return max(at, b.end)
	}
	return at
}

// dataField precedes the data of an event in a stream.
var dataField = []byte("data:")

// A reader reads the statements of a text. It does not need the text to be valid in any format, or complete.
type reader struct {
	text    []byte
	ahead   int  // remaining bytes of brackets that are read ahead
	limit   int  // maximum length of the result
	end     int  // where reading ended
	traffic bool // something was left out
	inside  int  // end of the request or answer in which the text starts; 0 if in none
	open    bool // the text ended in a request or answer
}

// read appends the statements of the text to dst.
func (r *reader) read(dst []byte) []byte {
	text := r.text
	i, copied := 0, 0   // text[copied:i] is not yet appended
	end := len(text)    // of the text, or of an error in a request or an answer
	traffic := r.inside // end of this request or answer
	line := 0           // start of this line
	mapped := 0         // end of the lines that are known to be no request or answer in YAML
	if traffic > 0 {
		r.traffic, end = true, 0
	}
	for len(dst)+i-copied < r.limit {
		if i >= end {
			if traffic == 0 {
				break
			}
			dst = append(dst, text[copied:i]...)
			dst, i, end = r.nextError(dst, i, traffic)
			if copied = i; i == traffic {
				end, traffic, r.open = len(text), 0, i == len(text)
			}
			continue
		}
		if mapped <= i && (i == 0 || text[i-1] == '\n') && traffic == 0 {
			b := r.mapping(i, end)
			if mapped = max(mapped, b.end); b.traffic {
				r.traffic = true
				dst = append(dst, text[copied:i]...)
				traffic, end, copied = b.end, i, i
				continue
			}
		}
		for last := min(end, copied+r.limit-len(dst)) - 1; i < last && !isMark[text[i]]; {
			i++
		}
		skip := i
		switch text[i] {
		case '\n':
			if !endsWith(dst, text[copied:i], '.') && (endsRecord(text[:end], min(line, i), i) || startsRecord(text[i+1:end])) {
				dst = append(append(dst, text[copied:i]...), '.')
				copied = i
			}
			line = i + 1
		case ':', '=':
			key := keyBefore(text, i, copied)
			if key.name == nil {
				break
			}
			switch v := r.valueAt(i+1, end); {
			case isOption(key.name, v, text):
				dst = append(dst, text[copied:key.start]...)
				i = r.endOf(v, end)
				copied = i
				continue
			case v.kind == blockValue && (isTraffic(key.name, v, text) || isEcho(key.name, v, text)):
				skip = endOfBlock(text[:end], key.start)
			case isEcho(key.name, v, text):
				skip = r.endOf(v, end)
			}
			if skip > i {
				dst = append(dst, text[copied:i+1]...)
			}
		case '-': // a header in the arguments of curl
			n := headerArgument(text[i:end])
			if n == 0 || i == 0 || text[i-1] != ' ' {
				break
			}
			if to := bytes.IndexByte(text[i+n+1:end], text[i+n]); to >= 0 {
				dst = append(dst, text[copied:i]...)
				skip = i + n + 1 + to + 1
			}
		case '{', '(':
			if text[i] == '(' && (i == 0 || !isName(text[i-1])) {
				break
			}
			if n := lenTemplate(text[i:end]); n > 0 {
				dst = append(dst, text[copied:i]...)
				skip = i + n
				break
			}
			b := r.brackets(i, end, true)
			if !b.traffic {
				break
			}
			dst = append(dst, text[copied:i]...)
			if skip = b.end; traffic == 0 {
				r.traffic = true
				traffic, end = b.end, i
				copied = i
				continue
			}
		}
		if skip > i {
			r.traffic = true
			i, copied = skip, skip
			continue
		}
		i++
	}
	r.end = i
	return append(dst, text[copied:max(i, copied)]...)
}

// endsWith reports whether a and b together end with c.
func endsWith(a, b []byte, c byte) bool {
	if len(b) == 0 {
		b = a
	}
	return len(b) > 0 && b[len(b)-1] == c
}

// isMark contains the characters at which read looks for something to leave out.
var isMark = [256]bool{'\n': true, ':': true, '=': true, '-': true, '{': true, '(': true}

// nextError appends the key of the next error in text[i:end], a request or an answer, and returns the start and end of its
// value. Without an error, both are end. Errors are members with this name at any depth.
func (r *reader) nextError(dst []byte, i, end int) (appended []byte, start, stop int) {
	text := r.text
	for i < end {
		switch c := text[i]; c {
		case '"', '\'', '\\':
			if opensString(text, i) > 0 {
				i, _ = endOfString(text[:end], i)
				continue
			}
		case ':', '=':
			key := keyBefore(text, i, 0)
			if key.name == nil {
				break
			}
			switch v := r.valueAt(i+1, end); {
			case isError(key.name, v, text):
				to := r.endOf(v, end)
				if v.kind == blockValue {
					to = endOfBlock(text[:end], key.start)
				}
				if to > v.at {
					return append(append(append(dst, " ,"...), key.name...), ": "...), v.at, to
				}
			case isEcho(key.name, v, text):
				i = max(i+1, r.endOf(v, end))
				continue
			case v.kind == plainValue && startsLine(text, key.start): // a text without quotes, in YAML
				if n := bytes.IndexByte(text[i:end], '\n'); n >= 0 {
					i += n
				} else {
					i = end
				}
				continue
			}
		}
		i++
	}
	return dst, end, end
}

// lenTemplate returns the length of the code of a chat template at the start of text, which a server shows with its error; 0 if there
// is none. Code that is cut short ends with its line.
func lenTemplate(text []byte) int {
	if len(text) < 2 || text[1] != '%' {
		return 0
	}
	text = text[:min(len(text), maxTemplate)]
	if n := bytes.Index(text, templateEnd); n > 0 {
		return n + len(templateEnd)
	}
	if n := bytes.IndexByte(text, '\n'); n > 0 {
		return n
	}
	return len(text)
}

var templateEnd = []byte("%}")

// headerArgument returns the length of an option of curl that precedes a header in quotes, or 0.
func headerArgument(text []byte) int {
	for _, option := range [...]string{"-H ", "--header "} {
		if n := len(option); len(text) > n && string(text[:n]) == option && isQuote(text[n]) {
			return n
		}
	}
	return 0
}

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

// startsLine reports whether only white space and dashes are before text[i] in its line.
func startsLine(text []byte, i int) bool {
	for i > 0 && (text[i-1] == ' ' || text[i-1] == '-') {
		i--
	}
	return i == 0 || text[i-1] == '\n'
}

// endsRecord reports whether the line text[start:end] is a record of a log that does not continue in the next line: it starts
// like one or ends with an object, and the next line is not indented. A small letter after an exception continues its sentence,
// which was wrapped.
func endsRecord(text []byte, start, end int) bool {
	if end == start || end+1 == len(text) || text[end+1] == ' ' || text[end+1] == '\t' {
		return false
	}
	if text[end-1] == '}' {
		return true
	}
	line := text[start:end]
	next, _, _ := bytes.Cut(text[end+1:], []byte("\n"))
	wrapped := startsException(line) && isSmall(text[end+1]) && !startsMember(next)
	return startsRecord(line) && !wrapped
}

// startsRecord reports whether a record of a log or an exception starts at the start of a line.
func startsRecord(line []byte) bool {
	if len(line) == 0 || line[0] < 'A' && line[0] != '[' && !isDigit(line[0]) || line[0] > 'Z' && !isWord(line[0]) && line[0] != '[' {
		return false
	}
	if line[0] == '[' {
		line = line[1:]
	}
	if len(line) > 5 && isDigit(line[0]) && isDigit(line[1]) && (line[2] == ':' || isDigit(line[2]) && isDigit(line[3]) && (line[4] == '-' || line[4] == '/')) {
		return true // a time
	}
	for _, level := range [...]string{"Traceback (", "DEBUG", "INFO", "WARN", "ERROR", "CRITICAL", "FATAL", "TRACE", "curl: ("} {
		if len(line) >= len(level) && string(line[:len(level)]) == level {
			return true
		}
	}
	return startsException(line)
}

// startsException reports whether a line starts with the name of an exception.
func startsException(line []byte) bool {
	n := 0
	for n < len(line) && n < maxName && isName(line[n]) {
		n++
	}
	for _, end := range [...]string{"Error", "Exception", "Timeout", ".error"} {
		if n >= len(end) && string(line[n-len(end):n]) == end {
			return true
		}
	}
	return false
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
