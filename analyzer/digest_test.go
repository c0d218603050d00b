package analyzer_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"hash"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var update = flag.Bool("update", false, "write the golden files")

// prose names the fields whose wording may change without a change of behaviour.
var prose = []string{"Summary", "Evidence", "Fix", "Error"}

// rowDigest hashes the rows of one table by their values, in declaration order, so that renaming a field changes nothing.
type rowDigest struct {
	hash.Hash
	rows int
}

func (d *rowDigest) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if s, ok := reflect.TypeAssert[fmt.Stringer](v); ok { // time.Time
			fmt.Fprintf(d, "%s|", s)
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !slices.Contains(prose, f.Name) {
				d.value(v.Field(i))
			}
		}
		fmt.Fprint(d, ";")
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			fmt.Fprintf(d, "%x|", v.Bytes())
			return
		}
		for i := range v.Len() {
			d.value(v.Index(i))
		}
		fmt.Fprint(d, "]")
	case reflect.Pointer:
		if !v.IsNil() {
			d.value(v.Elem())
		}
		fmt.Fprint(d, "^")
	case reflect.Interface, reflect.Func, reflect.Chan:
		panic("no value to hash: " + v.Type().String())
	default: // fmt sorts maps
		fmt.Fprintf(d, "%v|", v.Interface())
	}
}

// digestRows analyzes steps with everything switched on and adds the rows, and the ledger behind them, to d.
func (d tableDigests) digestRows(t *testing.T, name string, steps []step) {
	t.Helper()
	a, out := newAnalyzer(t, analyzer.Default()), new(analyzer.Output)
	a.KeepContents(func(string) bool { return true }, nil)
	for _, s := range steps {
		do(a, s, true, out)
	}
	changed, _ := a.TakeLedger()
	slices.SortFunc(changed, func(x, y ledger.Entry) int {
		return strings.Compare(fmt.Sprint(x.Key), fmt.Sprint(y.Key))
	})
	d.add(name, out)
	d.table(name+" ledger", reflect.ValueOf(changed))
}

// tableDigests are the digests of all tables of an Output.
type tableDigests map[string]*rowDigest

func (d tableDigests) add(prefix string, out *analyzer.Output) {
	for i := range out.Tallies {
		for j := range out.Tallies[i].Counts {
			c := &out.Tallies[i].Counts[j]
			c.Metric = fmt.Sprint(slices.Index(analyzer.Metrics(), c.Metric))
		}
	}
	v := reflect.ValueOf(out).Elem()
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			d.table(prefix+" "+strings.ToLower(f.Name), v.Field(i))
		}
	}
}

func (d tableDigests) table(name string, rows reflect.Value) {
	if d[name] == nil {
		d[name] = &rowDigest{Hash: sha256.New()}
	}
	d[name].rows += rows.Len()
	d[name].value(rows)
}

// broken is the conversation as an agent with a bug would send it; which bug depends on the line.
func (c *recorded) broken(line int) *recorded {
	b := *c
	b.Messages = nil
	last := 0 // of the kept replies
	for i, m := range c.Messages {
		var fields map[string]json.RawMessage
		if json.Unmarshal(m, &fields) != nil {
			continue
		}
		kind := string(fields["type"])
		reply := string(fields["role"]) == `"tool"` || kind == `"function_call_output"` ||
			string(fields["role"]) == `"user"` && bytes.Contains(fields["content"], []byte(`"tool_result"`))
		switch line % 8 {
		case 0: // calls dropped on save
			if kind == `"function_call"` {
				continue
			}
			delete(fields, "tool_calls")
		case 1: // every second reply dropped
			if reply && i%2 == 0 {
				continue
			}
		case 2: // every second reply saved twice
			if reply && i%2 == 0 {
				b.Messages = append(b.Messages, m)
			}
		case 3: // ids written anew
			for _, k := range []string{"tool_call_id", "call_id"} {
				if reply && len(fields[k]) > 0 {
					fields[k] = fmt.Appendf(nil, `"new_%d"`, i)
				}
			}
		case 4: // arguments as an object
			m = bytes.ReplaceAll(m, []byte(`\"`), []byte(`"`))
			m = bytes.ReplaceAll(bytes.ReplaceAll(m, []byte(`"{"`), []byte(`{"`)), []byte(`}"`), []byte(`}`))
			if json.Unmarshal(m, &fields) != nil {
				m = c.Messages[i]
				_ = json.Unmarshal(m, &fields)
			}
		case 5: // the head trimmed
			if i < len(c.Messages)/3 {
				continue
			}
		case 6: // replies out of order
			if reply && last > 0 && last == len(b.Messages)-1 {
				b.Messages = slices.Insert(b.Messages, last, m)
				continue
			}
			last = len(b.Messages)
		}
		text, err := json.Marshal(fields)
		if err != nil {
			continue
		}
		b.Messages = append(b.Messages, text)
	}
	return &b
}

// Rows of recorded traffic stay as they are when the code is rearranged: exchanges as they were, conversations turn by turn,
// and the same sent back by agents with bugs; with and without a conversation id, full and as shapes. After a change that
// is meant to change rows, run it with -update and say why.
func TestRecordedDigests(t *testing.T) {
	slowtest.Skip(t)
	digests := tableDigests{}
	all := newStream("")
	recordedExchanges(t, func(n int, r *recordedExchange) {
		all.labels.Conversation = ""
		if n%2 == 0 {
			all.labels.Conversation = r.Source + fmt.Sprint(n/6)
		}
		r.play(all)
		// shaped takes one URL for a stream
		one := newStream("")
		r.play(one)
		digests.digestRows(t, "exchanges, shape:", shaped(one).steps)
	})
	all.advance(2 * analyzer.Default().SessionLookback)
	digests.digestRows(t, "exchanges, full:", all.steps)
	recordedConversations(t, func(n int, c *recorded) {
		for _, c := range []*recorded{c, c.broken(n)} {
			for _, id := range []string{"given", ""} {
				s := newStream(id)
				s.labels.Run = fmt.Sprint("run", n)
				s.run("started")
				s.play(c)
				s.run([]string{"ok", "error"}[n/8%2])
				s.advance(2 * analyzer.Default().SessionLookback)
				digests.digestRows(t, "conversations, full:", s.steps)
				if n%4 == 0 {
					digests.digestRows(t, "conversations, shape:", shaped(s).steps)
				}
			}
		}
	})
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		d := digests[name]
		fmt.Fprintf(&got, "%-36s %7d %s\n", name, d.rows, hex.EncodeToString(d.Sum(nil)[:12]))
	}
	t.Logf("\n%s", &got)
	const golden = "testdata/recorded.digests"
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want := must.Get(os.ReadFile(golden))(t)
	must.Equal(t, got.String(), string(want), "rows of recorded traffic")
}

// play adds the calls of c. The provider refuses every fourth one.
func (s *stream) play(c *recorded) {
	calls := 0
	c.play(func(url string, request, answer []byte) {
		x := s.exchange()
		s.url = url
		s.add(&event.Event{Kind: event.Request, Exchange: x, URL: url, Method: "POST", Body: request})
		if calls++; calls%4 == 0 {
			s.response(x, 400, fault(orphanText))
			return
		}
		s.response(x, 200, answer)
	})
}
