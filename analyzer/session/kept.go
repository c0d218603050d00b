package session

// Kept is what the caller keeps with the conversation; nil at first. It is forgotten with it.
func (t *Turn) Kept() any { return t.conv.kept }

// Keep keeps v, which takes about so many bytes, with the conversation.
func (s *Store) Keep(t *Turn, v any, bytes int64) {
	t.conv.kept, t.conv.keptBytes = v, bytes
	s.account(t.conv)
}

// Lead is the number of leading system and developer messages.
func (t *Turn) Lead() int { return t.q.lead }

// Unmarked is the hash of message i without the cache marks that agents move along as a history grows. It is that of its
// bytes when it has none.
func (t *Turn) Unmarked(i int) uint64 { return t.q.messages[i].hash }

// Unmark returns message b without its cache marks: b itself when it has none.
func Unmark(b []byte) []byte {
	var out []byte
	for {
		start, end := cacheMark(b)
		if start < 0 {
			if out == nil {
				return b
			}
			return append(out, b...)
		}
		out = append(out, b[:start]...)
		b = b[end:]
	}
}
