package cause

// gramSize is the length of a gram in bytes.
const gramSize = 4

// grams is the set of all four-byte substrings of a text, stored as 16-bit hashes. A text without a phrase rarely contains all
// grams of that phrase, so most rows cost one lookup instead of a search.
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

// contain reports whether g contains all grams of a phrase.
func (g *grams) contain(phrase []uint16) bool {
	for _, h := range phrase {
		if g[h/64]&(1<<(h%64)) == 0 {
			return false
		}
	}
	return true
}

// gramsOf returns the grams of a phrase.
func gramsOf(phrase []byte) []uint16 {
	var hs []uint16
	for i := 0; i+gramSize <= len(phrase); i++ {
		hs = append(hs, gram(phrase, i))
	}
	return hs
}
