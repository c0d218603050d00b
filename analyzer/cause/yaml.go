package cause

import "bytes"

// mapping reads the lines from text[i] if they are the members of a mapping in YAML.
func (r *reader) mapping(i, end int) brackets {
	b := brackets{end: i}
	text := r.text[:end]
	if first := text[i]; r.ahead <= 0 || !isName(first) && first != ' ' {
		return b
	}
	var m memberSet
	members, indent := 0, -1
	for line := range bytes.Lines(text[i:]) {
		at := b.end
		body := at + len(line) - len(bytes.TrimLeft(line, " "))
		depth := body - at
		line = bytes.TrimRight(text[body:at+len(line)], "\r\n")
		switch {
		case indent < 0 && !startsMember(line):
			return b
		case indent < 0:
			indent = depth
		}
		switch {
		case len(line) == 0, depth > indent, members > 0 && depth == indent && line[0] == '-' && indent == 0:
		case depth < indent, !startsMember(line), startsRecord(line):
			r.ahead -= b.end - i
			b.traffic = members > 1 && m.areTraffic()
			return b
		default:
			colon := body + bytes.IndexByte(line, ':')
			k, v := keyBefore(text, colon, body), r.valueAt(colon+1, end)
			if v.kind == plainValue && isSentence(line[colon-body+1:]) {
				v.kind = lineValue
			}
			members++
			m.add(k.name, v, text)
		}
		b.end = body + len(line)
		for b.end < end && (text[b.end] == '\r' || text[b.end] == '\n') {
			b.end++
			if text[b.end-1] == '\n' {
				break
			}
		}
	}
	r.ahead -= b.end - i
	b.traffic = members > 1 && m.areTraffic()
	return b
}

// isSentence reports whether a value has several words.
func isSentence(text []byte) bool { return bytes.IndexByte(bytes.TrimSpace(text), ' ') >= 0 }

// endOfBlock returns the end of the lines below the key at text[i] that belong to it, as in YAML, or 0 if there are none.
func endOfBlock(text []byte, i int) int {
	line := bytes.LastIndexByte(text[:i], '\n') + 1
	indent := 0
	for _, c := range text[line:i] {
		if c != ' ' && c != '-' {
			return 0
		}
		indent++
	}
	at := bytes.IndexByte(text[i:], '\n')
	if at < 0 {
		return 0
	}
	end, first := i+at, true
	for end+1 < len(text) {
		next := end + 1
		eol := len(text)
		if n := bytes.IndexByte(text[next:], '\n'); n >= 0 {
			eol = next + n
		}
		body := next
		for body < eol && text[body] == ' ' {
			body++
		}
		if body < eol && text[body] != '\r' { // an empty line belongs to the block
			if depth := body - next; depth < indent || depth == indent && text[body] != '-' {
				break
			}
			if first && !startsMember(text[body:eol]) && text[i+at-1] != '|' && text[i+at-1] != '-' && text[i+at-1] != '>' {
				return 0
			}
			first = false
		}
		end = eol
	}
	if first {
		return 0
	}
	return end
}

// startsMember reports whether a line of YAML starts with a key, perhaps after a dash.
func startsMember(line []byte) bool {
	for len(line) > 1 && line[0] == '-' && line[1] == ' ' {
		line = line[2:]
	}
	n := 0
	for n < len(line) && isName(line[n]) && line[n] != '.' { // a name with a dot is one of an exception
		n++
	}
	return n > 0 && n < len(line) && line[n] == ':' && (n+1 == len(line) || line[n+1] == ' ' || line[n+1] == '\r')
}
