package cause

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Bounds of a scan.
const (
	maxConcepts = 192
	maxOrdered  = 16 // concepts whose positions are kept, and one for all others
	maxClauses  = 48
	firstKept   = maxClauses / 2 // clauses at the start of a text that are kept; of the others, the last ones
	shortGram   = 3              // bytes that are the key of a phrase of the lexicon; no phrase is shorter
	longGram    = 6              // bytes that are the key of a phrase of at least this length
)

// A concept is a subject of error texts with the phrases that express it, in normal form. A phrase matches a prefix of a word:
// "exceed" matches "exceeds". If a phrase ends in "$", the match must end at the end of a word; if it ends in "#", a digit must
// follow the match.
type concept struct {
	name    string
	phrases []string
}

// ordered contains the concepts that conditions compare by position.
var ordered = []string{"toolcall", "toolreply", "model", "modelbad", "gone", "inputname", "outlimit", "requires", "callid", "afterrole"}

// A phrase is an entry of the index.
type phrase struct {
	text    string
	concept uint8
	place   uint8 // index of the positions of the concept in a clause
	end     bool  // the match must end at the end of a word
	digit   bool  // a digit must follow the match
	inner   bool  // the match may start inside a word: the phrase starts with punctuation or in a script without word breaks
}

// An index maps hashes of first bytes to chains of phrases, linked by next; 0 ends a chain.
type index struct {
	short, long [1 << 13]uint16
	next        []uint16
	phrases     []phrase
	names       map[string]uint8
	places      [maxConcepts]uint8 // by concept, the index of its positions; 0 if they are not kept
	identifier  uint8              // concept of a name with an underscore, such as that of a parameter: no list contains them all
}

func shortHash[T string | []byte](s T) uint32 {
	return (uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16) * 2654435761 >> 19
}

func longHash[T string | []byte](s T) uint32 {
	lo := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16
	hi := uint32(s[3]) | uint32(s[4])<<8 | uint32(s[5])<<16
	return (lo*2654435761 ^ hi*2246822519) >> 19
}

func newIndex(concepts []concept) *index {
	x := &index{next: make([]uint16, 1), phrases: make([]phrase, 1), names: map[string]uint8{}}
	if len(concepts) > maxConcepts {
		panic("BUG: more concepts than bits")
	}
	if len(ordered) >= maxOrdered {
		panic("BUG: more ordered concepts than positions")
	}
	for i, c := range concepts {
		x.names[c.name] = uint8(i)
		x.places[i] = uint8(slices.Index(ordered, c.name) + 1)
		for _, p := range c.phrases {
			text, end := strings.CutSuffix(p, "$")
			text, digit := strings.CutSuffix(text, "#")
			head := &x.short[shortHash(text)]
			if len(text) >= longGram {
				head = &x.long[longHash(text)]
			}
			x.next = append(x.next, *head)
			*head = uint16(len(x.phrases))
			x.phrases = append(x.phrases, phrase{text: text, concept: uint8(i), place: x.places[i], end: end, digit: digit, inner: !isWord(text[0])})
		}
	}
	x.identifier = x.names["identifier"]
	return x
}

// A conceptSet contains concepts.
type conceptSet [maxConcepts / 64]uint64

func (s *conceptSet) add(concept uint8) { s[concept/64] |= 1 << (concept % 64) }

func (s *conceptSet) has(concept uint8) bool { return s[concept/64]&(1<<(concept%64)) != 0 }

// hasAll reports whether s contains all concepts of other.
func (s *conceptSet) hasAll(other *conceptSet) bool {
	return s[0]&other[0] == other[0] && s[1]&other[1] == other[1] && s[2]&other[2] == other[2]
}

// hasAny reports whether s contains one of the concepts of other.
func (s *conceptSet) hasAny(other *conceptSet) bool {
	return s[0]&other[0]|s[1]&other[1]|s[2]&other[2] != 0
}

// A clause contains the concepts of one sentence or of one JSON value, with the first and last position of each ordered concept.
type clause struct {
	has         conceptSet
	first, last [maxOrdered]uint16
}

// A scan contains the clauses of a text: the first ones and, if there are too many, the last ones.
type scan struct {
	clauses [maxClauses]clause
	from    [maxClauses]uint16 // start of each clause
	n       int                // number of clauses
	at      int                // index of the last clause read
}

// next begins the clause that starts at i.
func (s *scan) next(i int) {
	if s.at++; s.at == maxClauses {
		s.at = firstKept
	}
	if s.n < maxClauses {
		s.n++
	} else {
		s.clauses[s.at] = clause{}
	}
	s.from[s.at] = uint16(i)
}

// after returns the index of the clause that was read after clause i, or -1.
func (s *scan) after(i int) int {
	switch {
	case i == s.at:
		return -1
	case i+1 == s.n:
		return firstKept
	}
	return i + 1
}

// clauseEnds contains what ends a clause and starts a new one besides sentences and members (endsClause): the keys of what gateways
// relay, and the start of a reference. What follows the address of a page, such as the None of a repr, says nothing about the
// request.
var clauseEnds = []string{"raw:", "details:[", "event:", "data:{", "for further information", "for more information", "for more details"}

// joined reports whether a member with this name says something about the members before it: where a fault is, or what it is.
func joined(name []byte) bool {
	switch string(name) {
	case "msg", "loc", "path", "field", "reason":
		return true
	}
	return false
}

var messageKey = []byte("message:")

// schemeEnd precedes the host of an address, as in "https://".
var schemeEnd = []byte("://")

// endOfAddress returns the end of the address in a normal form whose host starts at text[i], or the start of its extension, such
// as ".png". The other names in an address have no meaning.
func endOfAddress(text []byte, i int) int {
	extension := -1
	for ; i < len(text) && bytes.IndexByte(addressEnds, text[i]) < 0; i++ {
		switch text[i] {
		case '.':
			if i+1 < len(text) && isWord(text[i+1]) {
				extension = i
			}
		case '/':
			extension = -1
		}
	}
	if extension >= 0 {
		return extension
	}
	return i
}

var addressEnds = []byte(" ,;)]}>")

// read finds the concepts of a normalised text in linear time, because each position needs a bounded number of comparisons
// with phrases of bounded length.
func (s *scan) read(x *index, text []byte) {
	s.n = 1
	for i := 0; i+shortGram <= len(text); i++ {
		if text[i] == ':' && bytes.HasPrefix(text[i:], schemeEnd) {
			i = endOfAddress(text, i+len(schemeEnd)) - 1
			continue
		}
		starts := i == 0 || !isWord(text[i-1])
		if endsClause(text, i, starts) {
			s.next(i)
			if bytes.HasPrefix(text[i+1:], messageKey) { // the key of the envelope has no meaning
				i += len(messageKey)
				continue
			}
		}
		if text[i] == '_' && !starts && isWord(text[i+1]) {
			s.clauses[s.at].note(x.identifier, 0, i)
		}
		if !starts && isWord(text[i]) {
			continue
		}
		s.follow(x, text, i, x.short[shortHash(text[i:])], starts)
		if i+longGram <= len(text) {
			s.follow(x, text, i, x.long[longHash(text[i:])], starts)
		}
	}
}

// follow records the concepts of the phrases of a chain that match at text[i]. at is the first phrase of the chain; starts
// reports whether a word starts at text[i].
func (s *scan) follow(x *index, text []byte, i int, at uint16, starts bool) {
	c := &s.clauses[s.at]
	for ; at != 0; at = x.next[at] {
		p := &x.phrases[at]
		end := i + len(p.text)
		switch {
		case !starts && !p.inner, end > len(text), string(text[i:end]) != p.text,
			p.end && inName(text[end:]),
			p.digit && (end == len(text) || !isDigit(text[end])):
			continue
		}
		c.note(p.concept, p.place, i)
	}
}

// inName reports whether rest continues a name, such as "-pro" after "sonar-reasoning".
func inName(rest []byte) bool {
	return len(rest) > 0 && (isWord(rest[0]) || rest[0] == '_') || len(rest) > 1 && rest[0] == '-' && isWord(rest[1])
}

// note records a concept that was found at position i.
func (c *clause) note(concept, place uint8, i int) {
	if !c.has.has(concept) {
		c.has.add(concept)
		c.first[place] = uint16(i)
	}
	c.last[place] = uint16(i)
}

func isWord(b byte) bool { return 'a' <= b && b <= 'z' || isDigit(b) }

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// endsClause reports whether a new clause starts at text[i].
func endsClause(text []byte, i int, starts bool) bool {
	switch text[i] {
	case ' ':
		return i > 0 && (text[i-1] == '.' && !isAbbreviated(text[:i-1]) || text[i-1] == '!' || text[i-1] == '?' || text[i-1] == ';')
	case 0xe3: // 。
		return text[i+1] == 0x80 && text[i+2] == 0x82
	case 'r', 'd', 'e', 'f':
		if !starts || i > 0 && text[i-1] == '.' { // the last part of a path, not a key
			return false
		}
	case ',':
		return opensMember(text, i+1)
	case '{':
		return opensMember(text, i+1) && (!inSentence(text[:i]) || isEnvelope(text[i+1:]))
	default:
		return false
	}
	for _, e := range clauseEnds {
		if end := i + len(e); end <= len(text) && string(text[i:end]) == e {
			return true
		}
	}
	return false
}

// opensMember reports whether a member starts at text[i] that is a clause of its own.
func opensMember(text []byte, i int) bool {
	end := i
	for end < len(text) && end-i <= maxName && (isWord(text[end]) || bytes.IndexByte(nameMarks, text[end]) >= 0) {
		end++
	}
	colon := end
	if colon < len(text) && text[colon] == ' ' {
		colon++
	}
	return end > i && colon < len(text) && text[colon] == ':' && !bytes.HasPrefix(text[colon:], schemeEnd) && !joined(text[i:end])
}

// inSentence reports whether the object after text belongs to a sentence: "does not match {…}".
func inSentence(text []byte) bool {
	text = bytes.TrimRight(text, " ")
	return len(text) > 0 && isWord(text[len(text)-1])
}

// isEnvelope reports whether the member at the start of text is an error or its message.
func isEnvelope(text []byte) bool {
	return bytes.HasPrefix(text, messageKey) || bytes.HasPrefix(text, []byte("error:"))
}

// nameMarks contains the characters of names besides letters and digits.
var nameMarks = []byte("_-.$")

// isAbbreviated reports whether the full stop after text ends a word cut short, "rs_01a2... not found", or "e.g.", and no sentence.
func isAbbreviated(text []byte) bool {
	n := len(text)
	return n > 0 && text[n-1] == '.' || n > 1 && text[n-2] == '.' && isSmall(text[n-1])
}

// A condition contains the concepts that a clause must or must not contain.
type condition struct {
	all, none conceptSet
	any       []conceptSet
	order     [][]uint8 // places; the first position of each concept must precede the last position of the next
}

// newCondition parses a condition, which is a list of terms that must all be true. A term is a concept that must be present;
// "!" and a concept that must be absent; concepts joined by "|", of which one must be present; or concepts joined by "<", which
// must occur in this order.
func newCondition(x *index, s string) (condition, error) {
	var c condition
	set := func(b *conceptSet, name string) error {
		i, ok := x.names[name]
		if !ok {
			return fmt.Errorf("condition %q: no concept %q", s, name)
		}
		b.add(i)
		return nil
	}
	for term := range strings.FieldsSeq(s) {
		var err error
		name, not := strings.CutPrefix(term, "!")
		switch {
		case not:
			err = set(&c.none, name)
		case strings.Contains(term, "<"):
			var order []uint8
			for name := range strings.SplitSeq(term, "<") {
				if err = set(&c.all, name); err != nil {
					break
				}
				place := x.places[x.names[name]]
				if place == 0 {
					err = fmt.Errorf("condition %q: concept %q is not ordered", s, name)
					break
				}
				order = append(order, place)
			}
			c.order = append(c.order, order)
		case strings.Contains(term, "|"):
			var one conceptSet
			for name := range strings.SplitSeq(term, "|") {
				if err = set(&one, name); err != nil {
					break
				}
			}
			c.any = append(c.any, one)
		default:
			err = set(&c.all, term)
		}
		if err != nil {
			return condition{}, err
		}
	}
	return c, nil
}

// clauseOf returns the first clause of s that meets the condition, or -1.
func (c *condition) clauseOf(s *scan) int {
clauses:
	for i := range s.clauses[:s.n] {
		cl := &s.clauses[i]
		if !cl.has.hasAll(&c.all) || cl.has.hasAny(&c.none) {
			continue
		}
		for j := range c.any {
			if !cl.has.hasAny(&c.any[j]) {
				continue clauses
			}
		}
		for _, order := range c.order {
			at := cl.first[order[0]]
			for _, next := range order[1:] {
				if cl.last[next] <= at {
					continue clauses
				}
				if at = cl.first[next]; at <= cl.first[order[0]] {
					at = cl.last[next]
				}
			}
		}
		return i
	}
	return -1
}
