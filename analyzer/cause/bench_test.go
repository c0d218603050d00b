package cause

import (
	"bytes"
	"testing"
)

// BenchmarkClassify classifies the public error texts, then the texts that cost most: as long as is read, and next to
// every phrase.
func BenchmarkClassify(b *testing.B) {
	rs := corpus(b)
	b.Run("corpus", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			r := rs[i%len(rs)]
			Classify(Input{Status: 400, Text: []byte(r.Body), Variant: variantOf[r.Provider]})
			i++
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "texts/s")
	})
	for name, unit := range map[string]string{"prose": "the quick brown fox must be in the tool_cal of messages; ", "escapes": `\\\\\"`, "prefixes": "tool_calltool_us"} {
		b.Run("4KiB/"+name, func(b *testing.B) {
			text := bytes.Repeat([]byte(unit), maxText/len(unit)+1)
			for b.Loop() {
				Classify(Input{Status: 400, Text: text})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "texts/s")
		})
	}
}
