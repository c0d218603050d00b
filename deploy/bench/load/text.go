package load

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
)

const (
	textBytes = 8 << 20
	words     = 6000 // different ones
)

// A text hands out pieces of prose that can stand in a JSON string as they are.
type text struct{ all string }

// newText returns a text of words that are as frequent as those of a language: the n-th has a share of about 1/n (Zipf), so
// that it compresses as prose does. A line has about ten words.
func newText(rnd *rand.Rand, size int) *text {
	vocabulary := make([]string, words)
	for i := range vocabulary {
		w := make([]byte, 2+rnd.IntN(9))
		for j := range w {
			w[j] = "etaoinshrdlucmfwypvbgkjqxz"[int(26*math.Pow(rnd.Float64(), 2))]
		}
		vocabulary[i] = string(w)
	}
	var b strings.Builder
	b.Grow(size + 64)
	for b.Len() < size {
		b.WriteString(vocabulary[int(math.Pow(words, rnd.Float64()))%words])
		switch rnd.IntN(12) {
		case 0:
			b.WriteString(`.\n`)
		case 1:
			b.WriteString(": ")
		case 2:
			b.WriteString(`, \"`)
		default:
			b.WriteByte(' ')
		}
	}
	return &text{b.String()}
}

// piece returns about n bytes from a random position, cut at spaces.
func (t *text) piece(rnd *rand.Rand, n int) string {
	n = min(max(n, 1), len(t.all)/2)
	start := rnd.IntN(len(t.all) - n - 64)
	start += strings.IndexByte(t.all[start:], ' ') + 1
	end := start + n
	if i := strings.IndexByte(t.all[end:], ' '); i >= 0 {
		end += i
	}
	return t.all[start:end]
}

// message returns a message with a piece of t. members, such as `,"tool_call_id":"call_1"`, follow the content.
func (t *text) message(rnd *rand.Rand, role string, n int, members string) json.RawMessage {
	return json.RawMessage(`{"role":"` + role + `","content":"` + t.piece(rnd, n) + `"` + members + `}`)
}

// A size is a distribution of sizes in bytes: logarithmic normal, given by its median and its 95th percentile.
type size struct{ median, p95, most float64 }

func (s size) draw(rnd *rand.Rand) int {
	const z95 = 1.645 // 95th percentile of the normal distribution
	sigma := math.Log(s.p95/s.median) / z95
	return int(min(s.median*math.Exp(sigma*rnd.NormFloat64()), s.most))
}
