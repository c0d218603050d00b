package cause

// gramSize is how many bytes a gram has.
const gramSize = 4

// grams is the set of all runs of four bytes of a text, by a hash of 16 bits. Almost no phrase has all its grams in a
// text that does not hold it, so most rows cost one look instead of a search.
type grams [1 << 16 / 64]uint64

func gram(s []byte, i int) uint16 {
	v := uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
	return uint16(v * 2654435761 >> 16)
}

func (g *grams) add(text []byte) {
	for i := 0; i+gramSize <= len(text); i++ {
		h := gram(text, i)
		g[h/64] |= 1 << (h % 64)
	}
}

// hold reports whether g has all of the grams of a phrase.
func (g *grams) hold(phrase []uint16) bool {
	for _, h := range phrase {
		if g[h/64]&(1<<(h%64)) == 0 {
			return false
		}
	}
	return true
}

// gramsOf lists the grams of a phrase.
func gramsOf(phrase []byte) []uint16 {
	var hs []uint16
	for i := 0; i+gramSize <= len(phrase); i++ {
		hs = append(hs, gram(phrase, i))
	}
	return hs
}
