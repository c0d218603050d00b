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
