package cause

import "strings"

// maxCluster bounds the length of a cluster key in bytes.
const maxCluster = 200

// Cluster returns a key that groups equivalent error texts: the normal form with quoted values, ids and numbers replaced, at
// most 200 bytes. It is used for texts that match no row, so that a new wording appears as one line.
func Cluster(text string) string {
	var inQuotes, plain [maxText]byte
	masked := maskQuoted(inQuotes[:0], text)
	norm := appendEdges(plain[:0], masked, false) // stored keys do not depend on how names are split
	var b strings.Builder
	for i := 0; i < len(norm) && b.Len() < maxCluster; {
		if !inWord(norm[i]) {
			b.WriteByte(norm[i])
			i++
			continue
		}
		end := i
		for end < len(norm) && inWord(norm[end]) {
			end++
		}
		b.WriteString(clusterWord(string(norm[i:end])))
		i = end
	}
	s := b.String()
	if len(s) > maxCluster {
		s = s[:maxCluster]
	}
	return strings.ToValidUTF8(strings.TrimSpace(s), "")
}

// maskQuoted replaces short quoted values in sentences, such as 'call_1', including sentences inside JSON with escaped quotes.
// It keeps quotes that are JSON or Python syntax: those of a key before a colon and of a value after it.
func maskQuoted(dst []byte, text string) []byte {
	if len(text) > maxText {
		text = text[:maxText]
	}
	for i := 0; i < len(text); {
		word, after, ok := quoted(text, i)
		switch {
		case !ok:
			dst = append(dst, text[i])
			i++
			continue
		case isProtocolWord(word):
			dst = append(dst, word...)
		default:
			dst = append(dst, "<q>"...)
		}
		i = after
	}
	return dst
}

// maxQuoted bounds the length of a quoted value; longer quoted texts are sentences.
const maxQuoted = 80

// quoted returns the quoted value at text[i], without its quotes, and the index after it.
func quoted(text string, i int) (word string, after int, ok bool) {
	start := i
	for i < len(text) && text[i] == '\\' && i < start+8 {
		i++
	}
	if i == len(text) || start == 0 || text[start-1] != ' ' || strings.IndexByte("'`\"", text[i]) < 0 {
		return "", 0, false
	}
	mark := text[start : i+1] // the quote and its backslashes
	rest := text[i+1:]
	n := strings.Index(rest[:min(len(rest), maxQuoted+len(mark))], mark)
	after = i + 1 + n + len(mark)
	if n < 0 || startsValue(text[:start]) || after < len(text) && text[after] == ':' {
		return "", 0, false
	}
	return rest[:n], after, true
}

// startsValue reports whether a JSON or Python value may start after before: before is empty or ends with a colon, comma or
// opening bracket.
func startsValue(before string) bool {
	before = strings.TrimRight(before, " ")
	return before == "" || strings.IndexByte(":,{[(", before[len(before)-1]) >= 0
}

// isProtocolWord reports whether a quoted word belongs to the wording, such as the name of a field, and is not a value.
func isProtocolWord(w string) bool {
	switch w {
	case "tool", "user", "assistant", "system", "developer", "function", "role", "content", "name", "messages", "tools",
		"tool_calls", "tool_call_id", "tool_choice", "tool_use", "tool_result", "tool_use_id", "thinking", "reasoning",
		"redacted_thinking", "reasoning_content", "arguments", "function.arguments", "input", "type", "id":
		return true
	}
	return false
}

func inWord(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c >= 0x80
}

// idPrefixes contains prefixes of ids, which identify even ids without digits.
var idPrefixes = []string{"call_", "call-", "toolu_", "tooluse_", "chatcmpl-"}

// clusterWord replaces numbers by N and ids by ID.
func clusterWord(w string) string {
	digits, letters := 0, 0
	for i := range len(w) {
		switch c := w[i]; {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c && c <= 'z':
			letters++
		}
	}
	for _, p := range idPrefixes {
		if len(w) > len(p) && strings.HasPrefix(w, p) && w != "call_id" {
			return "ID"
		}
	}
	switch {
	case digits == 0 && len(w) < 32:
		return w
	case letters == 0 && !strings.Contains(w, "-"):
		return "N"
	case letters == 0 || digits >= 4 || len(w) >= 20:
		return "ID"
	}
	return w
}
