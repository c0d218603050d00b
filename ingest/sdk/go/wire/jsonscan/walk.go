package jsonscan

import (
	"bytes"
	"iter"
)

// End returns the index after the value at i, or i or less if there is none or it does not end. It does not validate the value.
func End(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return StringEnd(b, i+1) + 1
	case '{', '[':
		return ContainerEnd(b, i+1)
	}
	for i < len(b) && bytes.IndexByte([]byte(",]} \t\r\n"), b[i]) < 0 {
		i++
	}
	return i
}

// Members yields the decoded keys and the raw values of the members of a JSON object, as far as it is one.
func Members(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, v []byte) bool) {
		i := Space(b, 0)
		if i >= len(b) || b[i] != '{' {
			return
		}
		for i = Space(b, i+1); i < len(b) && b[i] == '"'; i = Space(b, i+1) {
			end := StringEnd(b, i+1)
			if end < 0 {
				return
			}
			key := b[i+1 : end]
			if bytes.IndexByte(key, '\\') >= 0 {
				key = AppendText(nil, key)
			}
			if i = Space(b, end+1); i >= len(b) || b[i] != ':' {
				return
			}
			i = Space(b, i+1)
			if end = End(b, i); end <= i || !yield(key, b[i:end]) {
				return
			}
			if i = Space(b, end); i >= len(b) || b[i] != ',' {
				return
			}
		}
	}
}

// Elements yields the offsets and the raw elements of a JSON array, as far as it is one. An element that does not end is the rest of b.
func Elements(b []byte) iter.Seq2[int, []byte] {
	return func(yield func(i int, v []byte) bool) {
		i := Space(b, 0)
		if i >= len(b) || b[i] != '[' {
			return
		}
		for more := true; more; more = i < len(b) && b[i] == ',' {
			start := Space(b, i+1)
			end := End(b, start)
			if end < start {
				end = len(b)
			}
			if end == start || !yield(start, b[start:end:end]) {
				return
			}
			i = Space(b, end)
		}
	}
}
