package httpbody

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The encodings of OpenTelemetry Collectors are read, damaged ones are refused, and all memory is returned.
func TestEncodings(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789 "), 20_000)
	var deflated, framed bytes.Buffer
	z := zlib.NewWriter(&deflated)
	_, _ = z.Write(want)
	_ = z.Close()
	s := snappy.NewBufferedWriter(&framed)
	_, _ = s.Write(want)
	_ = s.Close()
	budget := NewBudget(3 * MaxBytes)
	f := func(encoding string, sent []byte, status int) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(sent))
		r.Header.Set("Content-Encoding", encoding)
		b, err := Read(r, budget)
		var refused *Error
		switch {
		case status == 0 && (err != nil || !bytes.Equal(b.Bytes, want)):
			t.Errorf("%s: %v", encoding, err)
		case status == 0:
			b.Release()
		case !errors.As(err, &refused) || refused.Status != status:
			t.Errorf("%s: %v, want %d", encoding, err, status)
		}
		if budget.Used() != 0 {
			t.Fatalf("%s: %d bytes still in use", encoding, budget.Used())
		}
	}
	f("deflate", deflated.Bytes(), 0)
	f("zlib", deflated.Bytes(), 0)
	f("snappy", framed.Bytes(), 0)
	f("x-snappy-framed", framed.Bytes(), 0)
	f("snappy", snappy.Encode(nil, want), 0)
	f("deflate", want, http.StatusBadRequest)
	f("snappy", framed.Bytes()[:100], http.StatusBadRequest)
	f("snappy", snappy.Encode(nil, want)[:100], http.StatusBadRequest)
	f("snappy", []byte("\xff\xff\xff\xff\x07"), http.StatusRequestEntityTooLarge) // a block of 2 GiB
	f("br", want, http.StatusUnsupportedMediaType)
}

// Bodies of any encoding and size are read whole, and all memory is returned.
func TestRead(t *testing.T) {
	budget := NewBudget(3 * MaxBytes)
	f := func(size int, encoding string, known bool) {
		t.Helper()
		want := bytes.Repeat([]byte("0123456789 "), size/11+1)[:size]
		var sent bytes.Buffer
		switch encoding {
		case "gzip":
			z := gzip.NewWriter(&sent)
			_, _ = z.Write(want)
			_ = z.Close()
		case "zstd":
			z := must.Get(zstd.NewWriter(&sent))(t)
			_, _ = z.Write(want)
			_ = z.Close()
		default:
			sent.Write(want)
		}
		var body io.Reader = &sent
		if !known {
			body = io.MultiReader(body)
		}
		r := httptest.NewRequest(http.MethodPost, "/", body)
		r.Header.Set("Content-Encoding", encoding)
		b, err := Read(r, budget)
		switch {
		case size > MaxBytes || encoding != "" && size > ratioFree: // compresses more than maxRatio times
			var refused *Error
			if !errors.As(err, &refused) || refused.Status != http.StatusRequestEntityTooLarge {
				t.Errorf("%d bytes, %s: %v", size, encoding, err)
			}
		case err != nil || !bytes.Equal(b.Bytes, want):
			t.Errorf("%d bytes, %s: %v", size, encoding, err)
		default:
			if used := budget.Used(); used < int64(size) || used > 2*int64(size)+2*firstBytes {
				t.Errorf("%d bytes, %s: %d in use", size, encoding, used)
			}
			b.Release()
		}
		if budget.Used() != 0 {
			t.Fatalf("%d bytes, %s: %d bytes still in use", size, encoding, budget.Used())
		}
	}
	for _, size := range []int{0, 1, firstBytes - 1, firstBytes, firstBytes + 1, 1 << 20, MaxBytes, MaxBytes + 1} {
		f(size, "", true)
		f(size, "", false)
		f(size, "gzip", true)
		f(size, "zstd", false)
	}
}

// A body that claims to be long takes memory only as it arrives, and none when the budget is exhausted.
func TestBudget(t *testing.T) {
	budget := NewBudget(firstBytes)
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", firstBytes+1)))
	if _, err := Read(r, budget); !errors.Is(err, ErrBehind) || budget.Used() != 0 {
		t.Errorf("%v, %d bytes in use", err, budget.Used())
	}
	r = httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("xy"), failing{}))
	r.ContentLength = MaxBytes
	if _, err := Read(r, budget); err == nil || errors.Is(err, ErrBehind) || budget.Used() != 0 {
		t.Errorf("%v, %d bytes in use", err, budget.Used())
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
