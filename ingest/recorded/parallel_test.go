package recorded

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// next yields the results of Next until a final error.
func (r *Reader) next() iter.Seq2[*Exchange, error] {
	return func(yield func(*Exchange, error) bool) {
		for {
			x, err := r.Next()
			_, more := errors.AsType[*RecordError](err)
			if errors.Is(err, io.EOF) || !yield(x, err) || err != nil && !more {
				return
			}
		}
	}
}

// texts returns the errors as text.
func texts(results iter.Seq2[*Exchange, error]) (all []any) {
	for x, err := range results {
		if err != nil {
			all = append(all, err.Error())
		} else {
			all = append(all, x)
		}
	}
	return all
}

// All yields the same as Next, with any number of cores.
func TestAll(t *testing.T) {
	f := func(name string, open func() io.Reader) {
		t.Helper()
		reader := func() *Reader {
			return must.Get(NewReader(open(), Config{Name: name, Instance: "i", MaxLine: inFlight / 3}))(t)
		}
		want := texts(reader().next())
		for _, cores := range []int{1, 5} {
			before := runtime.GOMAXPROCS(cores)
			got := texts(reader().All(t.Context()))
			runtime.GOMAXPROCS(before)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s on %d cores: %d results differ from those of Next, %d", name, cores, len(got), len(want))
			}
		}
	}
	text := func(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }
	long := strings.Replace(line, "gpt-5", strings.Repeat("x", inFlight/4), 1)
	f("lines", text(strings.Repeat(line+"\n{}\n\n{\n", 3)+long+"\n"+line))
	f("many lines", text(strings.Repeat(line+"\n{\n", 1000)))
	f("too long", text(line+"\n"+strings.Repeat(" ", inFlight/3+1)+"\n"+line))
	f("nothing", text("\n"))
	packed := gzipped(strings.Repeat(line+"\n", 1000))
	f("cut", text(packed[:len(packed)-9]))
	f("a HAR", text(`{"log":{"entries":[{"request":{"method":"GET"}},{"request":{"method":"POST","url":"https://api.openai.com/v1/responses"}},7`))
	path := recordedtest.Path(t, recordedtest.Exchanges)
	f("recorded traffic", func() io.Reader {
		file := must.Get(os.Open(path))(t)
		t.Cleanup(func() { _ = file.Close() }) // opened for reading only
		return file
	})
}

// A record in a pipe is yielded before the next one arrives. The end of ctx ends the reading at once, although the pipe blocks.
func TestAllOfPipe(t *testing.T) {
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	write := func() { _, _ = io.WriteString(out, line+"\n") }
	go write()
	r := must.Get(NewReader(in, Config{}))(t)
	n := 0
	var last error
	for x, err := range r.All(ctx) {
		switch last = err; {
		case x == nil:
		case n == 3:
			cancel()
		default:
			n++
			go write()
		}
	}
	if n != 3 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d exchanges, %v", n, last)
	}
}
