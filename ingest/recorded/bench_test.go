package recorded

import (
	"iter"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func BenchmarkReader(b *testing.B) {
	turn := `{"role":"user","content":"` + strings.Repeat("How much is \\u00e9 in \\\"lines\\\"? ", 30) + `"},`
	text := `{"url":"https://api.openai.com/v1/chat/completions","request":{"messages":[` + strings.Repeat(turn, 9) + `{}]},"status":200,"response":"` +
		strings.Repeat(`data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n`, 40) + `"}` + "\n"
	small := `{"url":"https://api.openai.com/v1/chat/completions","request":{"messages":[]},"status":200,"response":{}}` + "\n"
	all := func(r *Reader) iter.Seq2[*Exchange, error] { return r.All(b.Context()) }
	for _, bench := range []struct {
		name, file string
		records    int
		read       func(*Reader) iter.Seq2[*Exchange, error]
	}{
		{"Next", strings.Repeat(text, 1000), 1000, (*Reader).next},
		{"All", strings.Repeat(text, 1000), 1000, all},
		{"Next of small records", strings.Repeat(small, 10_000), 10_000, (*Reader).next},
		{"All of small records", strings.Repeat(small, 10_000), 10_000, all},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.file)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := NewReader(strings.NewReader(bench.file), Config{})
				must.Do(b, err)
				n := 0
				for _, err := range bench.read(r) {
					must.Do(b, err)
					n++
				}
				if n != bench.records {
					b.Fatalf("%d exchanges", n)
				}
			}
		})
	}
}
