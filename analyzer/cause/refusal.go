package cause

import (
	"bytes"
	"slices"
)

// refusals contains the words of refusals, for texts that also contain other sentences.
var refusals = newIndex(mustParse("refusals", parseLexicon))

var (
	envelopeBit = uint64(1) << refusals.names["envelope"]
	refusalBits = envelopeBit | 1<<refusals.names["refusal"] | 1<<refusals.names["refusalinside"]
)

// classNames contains the ends of the names of exceptions, as in BadRequestError.
var classNames = [...][]byte{[]byte("error"), []byte("exception")}

// codes contains the members that precede the message in the envelope of an error.
var codes = [...][]byte{[]byte("{code:"), []byte("{type:"), []byte("{status:"), []byte("{param:"), []byte("{name:")}

// isCode reports whether a clause is the first member of an error, and no message.
func isCode(clause []byte) bool {
	return slices.ContainsFunc(codes[:], func(c []byte) bool { return bytes.HasPrefix(clause, c) })
}

// keepRefusals removes the concepts of the clauses of s, those of text, that contain no refusal. A clause in the envelope of an
// error is one.
func (s *scan) keepRefusals(text []byte) {
	var signs scan
	signs.read(refusals, text)
	var enveloped [maxClauses]bool
	for i := range s.clauses[:s.n] {
		if next := s.after(i); next >= 0 {
			enveloped[next] = signs.clauses[i].has[0]&envelopeBit != 0 || enveloped[i] && isCode(text[s.from[i]:s.from[next]])
		}
	}
	for i := range s.clauses[:s.n] {
		end := len(text)
		if next := s.after(i); next >= 0 {
			end = int(s.from[next])
		}
		refuses := signs.clauses[i].has[0]&refusalBits != 0 || enveloped[i]
		for _, name := range classNames {
			refuses = refuses || bytes.Contains(text[s.from[i]:end], name)
		}
		if !refuses {
			s.clauses[i].has = conceptSet{}
		}
	}
}
