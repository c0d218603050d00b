package recorded

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func BenchmarkReader(b *testing.B) {
	turn := `{"role":"user","content":"` + strings.Repeat("How much is \\u00e9 in \\\"lines\\\"? ", 30) + `"},`
	text := `{"url":"https://api.openai.com/v1/chat/completions","request":{"messages":[` + strings.Repeat(turn, 9) + `{}]},"status":200,"response":"` +
		strings.Repeat(`data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n`, 40) + `"}` + "\n"
	file := strings.Repeat(text, 1000)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := NewReader(strings.NewReader(file), Config{})
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for ; ; n++ {
			if _, err := r.Next(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
		if n != 1000 {
			b.Fatalf("%d exchanges", n)
		}
	}
}
