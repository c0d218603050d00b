package cause

import "bytes"

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
