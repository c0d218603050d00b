package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
)

// match appends text with masks for what the patterns match, one after the other, in each string of JSON.
func (c *Contents) match(dst, text []byte) []byte {
	whole := !isJSON(text)
	for _, re := range c.patterns {
		out := make([]byte, 0, len(text)+len(text)/16)
		for i := 0; i < len(text); {
			n := bytes.IndexByte(text[i:], '"')
			if n < 0 {
				n = len(text) - i
			}
			end := i + n
			if !whole {
				out = append(out, text[i:end]...) // between strings
			} else {
				out = replace(out, re, text[i:end])
			}
			if end == len(text) {
				break
			}
			stop := stringEnd(text, end+1)
			out = replace(append(out, '"'), re, text[end+1:stop])
			if stop < len(text) {
				out = append(out, '"')
				stop++
			}
			i = stop
		}
		text = out
	}
	return append(dst, text...)
}

// isJSON reports whether what is between the strings of text is JSON, or a stream of it.
func isJSON(text []byte) bool {
	start := bytes.TrimLeft(text, " \t\r\n")
	if len(start) > 0 && bytes.IndexByte([]byte("{[\""), start[0]) >= 0 {
		return true
	}
	for _, field := range []string{"data:", "event:", "id:", "retry:", ":"} {
		if bytes.HasPrefix(start, []byte(field)) {
			return true
		}
	}
	return json.Valid(start)
}

// stringEnd is where the string that begins at i ends: at its quote, or at the end of the line, which no string of JSON has.
func stringEnd(text []byte, i int) int {
	for ; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"', '\n':
			return i
		}
	}
	return len(text)
}

// replace appends the text of one string, masked. A mask takes the whole of an escape that it would cut.
func replace(dst []byte, re *regexp.Regexp, text []byte) []byte {
	done, at := 0, 0 // at never stands within an escape
	for _, m := range re.FindAllIndex(text, -1) {
		if m[1] <= done || len(bytes.Trim(text[m[0]:m[1]], "*")) == 0 {
			continue
		}
		for at < m[0] && at+escapeLen(text[at:]) <= m[0] {
			at += escapeLen(text[at:])
		}
		dst = append(append(dst, text[done:at]...), mask...)
		for at < m[1] {
			at += escapeLen(text[at:])
		}
		done = at
	}
	return append(dst, text[done:]...)
}

// escapeLen is how long the escape is that text begins with; 1 if it begins with none.
func escapeLen(text []byte) int {
	switch {
	case text[0] != '\\' || len(text) == 1:
		return 1
	case text[1] == 'u':
		return min(6, len(text))
	}
	return 2
}
