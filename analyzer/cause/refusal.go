package cause

import "bytes"

// refusals contains the words of refusals, for texts that also contain other sentences.
var refusals = newIndex(mustParse("refusals", parseLexicon))

var (
	envelopeBit = uint64(1) << refusals.names["envelope"]
	refusalBits = envelopeBit | 1<<refusals.names["refusal"] | 1<<refusals.names["refusalinside"]
)

// classNames contains the ends of the names of exceptions, as in BadRequestError.
var classNames = [...][]byte{[]byte("error"), []byte("exception")}

// keepRefusals removes the concepts of the clauses of s, those of text, that contain no refusal. A clause in the envelope of an
// error is one.
func (s *scan) keepRefusals(text []byte) {
	var signs scan
	signs.read(refusals, text)
	for i := range s.clauses[:s.n] {
		end := len(text)
		if i+1 < s.n {
			end = int(s.from[i+1])
		}
		refuses := signs.clauses[i].has[0]&refusalBits != 0 || i > 0 && signs.clauses[i-1].has[0]&envelopeBit != 0
		for _, name := range classNames {
			refuses = refuses || bytes.Contains(text[s.from[i]:end], name)
		}
		if !refuses {
			s.clauses[i].has = conceptSet{}
		}
	}
}
