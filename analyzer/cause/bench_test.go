package cause

import (
	"bytes"
	"strings"
	"testing"
)

// BenchmarkClassify classifies the public error texts, then the most expensive texts: of the maximum length, and nearly
// matching every phrase.
func BenchmarkClassify(b *testing.B) {
	rs := corpus(b)
	texts, size := make([][]byte, len(rs)), 0
	for i, r := range rs {
		texts[i], size = []byte(r.Body), size+len(r.Body)
	}
	b.Run("corpus", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(size / len(rs)))
		i := 0
		for b.Loop() {
			Classify(Input{Status: 400, Text: texts[i%len(rs)], Variant: variantOf[rs[i%len(rs)].Provider]})
			i++
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "texts/s")
	})
	b.Run("unseen", func(b *testing.B) { // no family knows most of these
		var unseen [][]byte
		for _, s := range sentences(b, "testdata/unseen.jsonl") {
			unseen = append(unseen, []byte(s.Text))
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			Classify(Input{Status: 400, Text: unseen[i%len(unseen)]})
			i++
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "texts/s")
	})
	for name, unit := range map[string]string{
		"brackets": "[{\"", "quotes": `"'`, "clauses": ",type:", "sentences": ". a",
		"prose": "the quick brown fox must be in the tool_cal of messages; ", "escapes": `\\\\\"`, "prefixes": "tool_calltool_us",
	} {
		b.Run("1MiB/"+name, func(b *testing.B) {
			text := bytes.Repeat([]byte(unit), 1<<20/len(unit)+1)
			b.ReportAllocs()
			for b.Loop() {
				Classify(Input{Status: 400, Text: text})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "texts/s")
		})
	}
}

// BenchmarkStatements reads the public error texts, then an exchange of a megabyte.
func BenchmarkStatements(b *testing.B) {
	rs := corpus(b)
	size := 0
	for _, r := range rs {
		size += len(r.Body)
	}
	b.Run("corpus", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(size / len(rs)))
		var buf [maxText + maxEdges]byte
		i := 0
		for b.Loop() {
			statements(buf[:0], []byte(rs[i%len(rs)].Body))
			i++
		}
	})
	b.Run("request of 1 MiB", func(b *testing.B) {
		text := []byte(`{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":"What does it cost, and \"why\"?"},`, 1<<20/60) + `{}]}`)
		dst := make([]byte, 0, len(text))
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			Statements(dst, text)
		}
	})
}
