package explain

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// PowerShell writes UTF-16 with and without a byte order mark, and CR LF.
func TestUTF16(t *testing.T) {
	f := func(name, text string, want ...string) {
		t.Helper()
		expect(t, name, strings.ReplaceAll(text, "\n", "\r\n"), want...)
		units := utf16.Encode([]rune(text))
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			var b []byte
			for _, u := range units {
				b = order.AppendUint16(b, u)
			}
			mark := order.AppendUint16(nil, 0xfeff)
			expect(t, name+" marked", string(mark)+string(b), want...)
			expect(t, name+" unmarked", string(b), want...)
			must.Agree(t, cmp.Diff(want, render(explain(t, iotest.OneByteReader(bytes.NewReader(b))))), name, "byte by byte")
		}
	}
	f("text", "API 错误 😀 400: "+orphanText+"\n", "- orphan_tool_reply stated")
	f("records", `{"id":"😀","status":401}`+"\n"+`{"id":"b","status":429}`+"\n", "-:1 😀 auth stated", "-:2 b rate_limit stated")
	half := "\xff\xfe" + strings.Join(strings.Split("HTTP 401 x", ""), "\x00") + "\x00\x3d\xd8y"
	expect(t, "incomplete pair and character", half, "- auth stated")
}
