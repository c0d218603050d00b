package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// secrets are inserted into the benchmark texts.
var secrets = []string{"sk-proj-" + alnum(48), "jane@example.com", "+14155552671", "password=\"hunter22\"", "4111 1111 1111 1111", "Authorization: Bearer " + alnum(40)}

// text returns n bytes of JSON: a string of lines, with a secret for each 1000/perMille words of 10 bytes.
func text(n int, perMille float64, line func(w *bytes.Buffer, r *rand.Rand)) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for hits := 0; b.Len() < n; {
		line(&b, r)
		for float64(hits) < float64(b.Len())/10*perMille/1000 {
			hits++
			fmt.Fprintf(&b, "x %s y\n", secrets[r.IntN(len(secrets))])
		}
	}
	return []byte(quote(b.String()[:n]))
}

// code writes a line of code or logs.
func code(w *bytes.Buffer, r *rand.Rand) {
	lines := []string{
		"func (r *reader) word(ctx context.Context, max_tokens int) error {\n", "\tif err := s.conn.Exec(ctx, query, args...); err != nil {\n", "\t\treturn fmt.Errorf(\"write %d rows: %w\", n, err)\n",
		"def test_history_round_trip(self, tmp_path: Path) -> None:\n", "    assert result.status_code == 200 and result.json()[\"items\"][0][\"id\"] == 1024\n", "class PlannerAgent(BaseAgent, metaclass=Registry):\n",
		"    \"password\": {\"type\": \"string\"}, \"retry-after\": 30, \"created\": 1763712000\n", "const timeout = 30 * time.Second // of one request, see DESIGN.md\n", "2026-11-21T08:00:00.123Z INFO stored batch rows=10000 took=812ms id=0f8fad5b-d9cb-469f-a165-70867728950e\n",
		"import { useEffect, useState } from 'react';\n", "   <div className=\"flex items-center px-4 py-2 text-sm\">{value}</div>\n", "The quick brown fox reads the configuration and says what it finds there, line by line.\n",
	}
	w.WriteString(lines[r.IntN(len(lines))])
}

// python writes a line of code with many names and numbers.
func python(w *bytes.Buffer, r *rand.Rand) {
	words := []string{"self", "request", "token", "user_id", "password", "config", "response", "data", "index2", "api_key", "model", "payload", "session", "headers", "result", "x", "df", "np", "batch_size", "learning_rate"}
	word := func() string { return words[r.IntN(len(words))] }
	switch indent := strings.Repeat("    ", r.IntN(4)); r.IntN(5) {
	case 0:
		fmt.Fprintf(w, "%s%s = %s.get(\"%s\", %d)\n", indent, word(), word(), word(), r.IntN(1000))
	case 1:
		fmt.Fprintf(w, "%sif %s[%d] != '%s' and len(%s) > %d:\n", indent, word(), r.IntN(10), word(), word(), r.IntN(100))
	case 2:
		fmt.Fprintf(w, "%sdef get_%s(self, %s: str, %s: int = %d) -> dict[str, Any]:\n", indent, word(), word(), word(), r.IntN(10))
	case 3:
		fmt.Fprintf(w, "%s%s = os.environ[\"%s\"]  # %s of %s\n", indent, word(), strings.ToUpper(word()), word(), word())
	default:
		fmt.Fprintf(w, "%sreturn {\"%s\": %s.%s, \"%s\": %.4f, **%s}\n", indent, word(), word(), word(), word(), r.Float64(), word())
	}
}

// chinese writes prose with three bytes per character.
func chinese(w *bytes.Buffer, r *rand.Rand) {
	for range 20 + r.IntN(40) {
		w.WriteRune(rune(0x4e00 + r.IntN(3000)))
	}
	w.WriteString("，共 " + strconv.Itoa(r.IntN(5000)) + " 个。\n")
}

func logs(w *bytes.Buffer, r *rand.Rand) {
	fmt.Fprintf(w, "2026-11-%02d %02d:%02d:%02d,%03d [worker-%d] 10.0.%d.%d:%d GET /v1/items/%d?page=%d 200 %d %.3fms order=%d ts=%d (%d of %d)\n", r.IntN(30)+1, r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000),
		r.IntN(16), r.IntN(256), r.IntN(256), r.IntN(65536), r.IntN(1000000), r.IntN(100), r.IntN(100000), r.Float64()*100, r.Int64N(1e12), 1763712000+r.IntN(1e6), r.IntN(100), r.IntN(100))
}

func random(w *bytes.Buffer, r *rand.Rand, n int, encode func([]byte) string) {
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	w.WriteString(encode(raw))
}

// image writes a message with an image.
func image(w *bytes.Buffer, r *rand.Rand) {
	w.WriteString(`{"role":"user","content":[{"type":"text","text":"What is on it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`)
	random(w, r, 100_000, base64.StdEncoding.EncodeToString)
	w.WriteString("\"}}]},\n")
}

func hexadecimal(w *bytes.Buffer, r *rand.Rand) {
	random(w, r, 4096, hex.EncodeToString)
	w.WriteByte('\n')
}

// bodies writes JSON in JSON.
func bodies(w *bytes.Buffer, r *rand.Rand) {
	fmt.Fprintf(w, `{"id":"chatcmpl-%x","object":"chat.completion","created":%d,"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_%x","type":"function",`+
		`"function":{"name":"read_file","arguments":"{\"path\": \"/src/app/%d/main.ts\", \"limit\": %d}"}}]}}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`+"\n", r.Uint64(), 1763712000+r.IntN(1e6), r.Uint64(), r.IntN(100), r.IntN(500), r.IntN(9999), r.IntN(999))
}

// sources writes source files of this module.
func sources(tb testing.TB) func(w *bytes.Buffer, r *rand.Rand) {
	tb.Helper()
	names, err := filepath.Glob("../../../../*/*.go")
	if err != nil || len(names) == 0 {
		tb.Fatal("no sources", err)
	}
	return func(w *bytes.Buffer, r *rand.Rand) {
		file := must.Get(os.ReadFile(names[r.IntN(len(names))]))(tb)
		w.Write(file)
	}
}

// escaped writes lines with non-ASCII characters as JSON escapes.
func escaped(line func(*bytes.Buffer, *rand.Rand)) func(*bytes.Buffer, *rand.Rand) {
	return func(w *bytes.Buffer, r *rand.Rand) {
		var b bytes.Buffer
		line(&b, r)
		w.WriteString(strings.Trim(strconv.QuoteToASCII(b.String()), `"`))
	}
}

// BenchmarkRedactor masks 1 MB. MB/cpu-s is relative to CPU time, which is less affected by other processes.
func BenchmarkRedactor(b *testing.B) {
	for _, x := range []struct {
		name     string
		line     func(*bytes.Buffer, *rand.Rand)
		perMille float64
		patterns []string
	}{
		{"code", code, 0, nil},
		{"code/hits=0.1%", code, 1, nil},
		{"code/hits=1%", code, 10, nil},
		{"code/hits=0.1%,pattern", code, 1, []string{`EMP-\d{6}`}},
		{"code/hits=0.1%,pattern=word", code, 1, []string{`(?i)\bproject falcon\b`}},
		{"sources", sources(b), 1, nil},
		{"python", python, 1, nil},
		{"bodies", bodies, 1, nil},
		{"image", image, 1, nil},
		{"chinese", chinese, 1, nil},
		{"chinese/escaped", escaped(chinese), 1, nil},
		{"logs", logs, 1, nil},
		{"hex", hexadecimal, 1, nil},
	} {
		in, c := text(1<<20, x.perMille, x.line), newRedactor(b, x.patterns...)
		b.Run(x.name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			dst := make([]byte, 0, 2*len(in))
			start := cpuSeconds(b)
			for b.Loop() {
				dst = c.Append(dst[:0], in)
			}
			b.ReportMetric(float64(len(in))*float64(b.N)/1e6/(cpuSeconds(b)-start), "MB/cpu-s")
		})
	}
}

// cpuSeconds returns the CPU time of this process in seconds.
func cpuSeconds(tb testing.TB) float64 {
	tb.Helper()
	var u syscall.Rusage
	must.Do(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
