package clickhouse_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

var storage = flag.Bool("storage", false, "compare the disk usage of conversations with that of whole requests")

// A turn is a request and its response.
type turn struct {
	conversation, url string
	request, response []byte
}

// TestStorage compares the disk usage of conversations whose messages are stored once with that of whole requests and responses
// in a table of the same engine with ZSTD(3), sorted by time and by conversation, which compresses best.
//
//	go test ./sinks/clickhouse -run TestStorage -storage -v
func TestStorage(t *testing.T) {
	t.Parallel()
	const longest = 200
	turns, size := []int{10, 50, longest}, 2000
	if !*storage {
		turns, size = turns[:1], 100
	}
	rows := [][]string{{"conversations", "exchanges", "MB sent", "whole, by time", "by conversation", "stored once", "messages", "history", "exchanges", "all rows of calls", "to whole", "bytes an exchange", "rows/s in", "MB/s in"}}
	each := map[int]float64{}
	for _, n := range turns {
		m := measure(t, generate(size/n, n))
		each[n] = float64(m.once()) / float64(m.exchanges)
		rows = append(rows, m.row(fmt.Sprintf("%d of %d turns", size/n, n)))
	}
	if !*storage {
		return
	}
	if recorded := conversations(t); len(recorded) > 0 {
		rows = append(rows, measure(t, recorded).row("recorded, one by one"), measure(t, interleave(recorded, 50)).row("recorded, 50 at a time"))
	}
	if each[longest] > 1.5*each[10] {
		t.Errorf("an exchange in conversations of %d turns takes %.0f bytes, in those of 10 turns %.0f bytes: storage grows faster than the new messages", longest, each[longest], each[10])
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t")+"\t")
	}
	_ = w.Flush()
	t.Log("\n" + b.String())
}

// A measurement contains sizes in bytes on disk.
type measurement struct {
	exchanges, sent              int
	byTime, byConversation       uint64
	messages, history, inRequest uint64
	calls                        uint64 // exchanges, findings, tool calls and runs, which sampling does not affect
	written                      int    // rows
	took                         time.Duration
}

func (m *measurement) once() uint64 { return m.messages + m.history + m.inRequest }

func (m *measurement) row(name string) []string {
	kb := func(n uint64) string { return fmt.Sprintf("%.0f KB", float64(n)/1e3) }
	return []string{
		name, fmt.Sprint(m.exchanges), fmt.Sprintf("%.1f", float64(m.sent)/1e6), kb(m.byTime), kb(m.byConversation), kb(m.once()), kb(m.messages), kb(m.history), kb(m.inRequest), kb(m.calls),
		fmt.Sprintf("1 : %.1f", float64(min(m.byTime, m.byConversation))/float64(m.once())), fmt.Sprintf("%.0f", float64(m.once())/float64(m.exchanges)),
		fmt.Sprintf("%.0f", float64(m.written)/m.took.Seconds()), fmt.Sprintf("%.1f", float64(m.sent)/1e6/m.took.Seconds()),
	}
}

// measure stores turns in both ways.
func measure(t *testing.T, turns []turn) *measurement {
	t.Helper()
	s := open(t)
	for table, order := range map[string]string{"by_time": "id", "by_conversation": "conversation_id, id"} {
		err := s.Exec(t.Context(), "CREATE TABLE "+table+` (conversation_id String CODEC(ZSTD(1)), id String CODEC(ZSTD(1)), request String CODEC(ZSTD(3)), answer String CODEC(ZSTD(3)))
			ENGINE = ReplacingMergeTree ORDER BY (`+order+")")
		must.Do(t, err)
	}
	// Wide parts report the size of each column.
	for _, table := range []string{"messages", "history", "exchanges", "by_time", "by_conversation"} {
		must.Do(t, s.Exec(t.Context(), "ALTER TABLE "+table+" MODIFY SETTING min_bytes_for_wide_part = 0"))
	}
	a := analyzer.New(analyzer.Default(), rules.InOrder, prometheus.NewRegistry())
	a.KeepContents(func(string) bool { return true }, nil)
	m := &measurement{exchanges: len(turns)}
	var out analyzer.Output
	var whole []turn
	stored := 0
	flush := func() {
		b := &sinks.Batch{
			Exchanges: out.Exchanges, Findings: out.Findings, ToolCalls: out.ToolCalls, Runs: out.Runs, Contents: out.Contents, History: out.History,
		}
		begun := time.Now()
		must.Do(t, s.Write(t.Context(), b))
		m.took += time.Since(begun)
		m.written += out.Rows()
		writeWhole(t, s, whole, stored)
		stored += len(whole)
		out.Reset()
		whole = whole[:0]
	}
	now, seq, buffered := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), uint64(0), 0
	for i, c := range turns {
		for _, k := range []event.Kind{event.Request, event.Response} {
			seq++
			now = now.Add(20 * time.Millisecond)
			ev := event.Event{
				Kind: k, Exchange: fmt.Sprintf("019aa0b0-%04x-7%03x-8000-%012x", i>>12, i&0xfff, uint64(i)*0x9e3779b97f4a), Time: now, Seq: seq,
				Origin: event.OriginHook, Capture: event.CaptureFull, Part: 1, Parts: 1, Instance: "3f9c1a7be204",
				Labels: event.Labels{Service: "planner-api", ServiceVersion: "1.4.0", Stage: "planner", Conversation: c.conversation},
			}
			if ev.URL, ev.Method, ev.Body = c.url, "POST", c.request; k == event.Response {
				ev.URL, ev.Method, ev.Status, ev.ContentType, ev.Body = "", "", 200, "application/json", c.response
			}
			ev.BodyBytes = len(ev.Body)
			a.Process(&ev, analyzer.Position{Seq: seq, Time: now}, true, &out)
			m.sent += len(ev.Body)
			buffered += len(ev.Body)
		}
		if whole = append(whole, c); buffered > 16<<20 {
			flush()
			buffered = 0
		}
	}
	flush()
	disk := func(sql string) uint64 {
		res := must.Get(s.Query(t.Context(), sql, nil))(t)
		return res.Rows[0][0].(uint64)
	}
	table := func(name string) uint64 {
		must.Do(t, s.Exec(t.Context(), "OPTIMIZE TABLE "+name+" FINAL"))
		return disk("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase() AND table = '" + name + "'")
	}
	m.byTime, m.byConversation, m.messages, m.history = table("by_time"), table("by_conversation"), table("messages"), table("history")
	m.calls = table("exchanges") + table("findings") + table("tool_calls") + table("runs")
	m.inRequest = disk(`SELECT sum(column_bytes_on_disk) FROM system.parts_columns WHERE active AND database = currentDatabase() AND table = 'exchanges'
		AND column IN ('branch', 'lead', 'marked', 'parameters', 'messages_at', 'answer')`)
	return m
}

// writeWhole stores whole requests and responses, numbered from first.
func writeWhole(t *testing.T, s *clickhouse.Sink, turns []turn, first int) {
	t.Helper()
	for _, name := range []string{"by_time", "by_conversation"} {
		must.Do(t, s.ExecBatch(t.Context(), "INSERT INTO "+name, len(turns), func(i int) []any {
			c := &turns[i]
			return []any{c.conversation, fmt.Sprintf("019aa0b0-%012d", first+i), string(c.request), string(c.response)}
		}))
	}
}

// generate returns concurrent conversations of an agent that calls a tool in each turn and reads and writes text that
// resembles code and logs.
func generate(conversations, turns int) []turn {
	r := rand.New(rand.NewPCG(uint64(conversations), uint64(turns)))
	words := make([]string, 4000)
	for i := range words {
		b := make([]byte, 2+r.IntN(9))
		for j := range b {
			b[j] = "etaoinshrdlucmfwypvbgkqjxz_"[int(27*math.Pow(r.Float64(), 1.7))]
		}
		words[i] = string(b)
	}
	text := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			b.WriteString(words[int(4000*math.Pow(r.Float64(), 2.5))])
			switch r.IntN(12) {
			case 0:
				b.WriteString(" = " + fmt.Sprint(r.IntN(100000)) + "\n    ")
			case 1:
				b.WriteString(`("` + words[r.IntN(4000)] + "\")\n")
			default:
				b.WriteByte(' ')
			}
		}
		return b.String()
	}
	type object = map[string]any
	tools := []object{}
	for range 12 {
		tools = append(tools, object{"type": "function", "function": object{"name": words[r.IntN(4000)], "description": text(300), "parameters": object{"type": "object"}}})
	}
	system := object{"role": "system", "content": text(3000)}
	histories := make([][]object, conversations)
	for i := range histories {
		histories[i] = []object{system, {"role": "user", "content": text(600)}}
	}
	var all []turn
	for range turns {
		for i := range histories {
			call := fmt.Sprintf("call_%016x%08x", r.Uint64(), r.Uint32())
			reply := object{"role": "assistant", "content": text(80), "tool_calls": []object{{"id": call, "type": "function", "function": object{"name": "read", "arguments": fmt.Sprintf(`{"path":%q}`, text(40))}}}}
			request, _ := json.Marshal(object{"model": "deepseek-chat", "messages": histories[i], "tools": tools, "temperature": 0})
			response, _ := json.Marshal(object{
				"id": fmt.Sprintf("chatcmpl-%016x", r.Uint64()), "object": "chat.completion", "model": "deepseek-chat",
				"choices": []object{{"index": 0, "message": reply, "finish_reason": "tool_calls"}}, "usage": object{"prompt_tokens": len(request) / 4, "completion_tokens": 60},
			})
			all = append(all, turn{fmt.Sprintf("%016x", uint64(i+1)*0x9e3779b97f4a7c15), "https://api.deepseek.com/chat/completions", request, response})
			histories[i] = append(histories[i], reply, object{"role": "tool", "tool_call_id": call, "content": text(100 + int(4000*math.Pow(r.Float64(), 3)))})
		}
	}
	return all
}

// conversations returns recorded conversations. Each assistant message is a turn, whose request contains all messages before it.
func conversations(t *testing.T) (all []turn) {
	t.Helper()
	recordedtest.Lines(t, recordedtest.Conversations, func(n int, line []byte) {
		var c struct {
			Format, Model string
			Messages      []json.RawMessage
			Tools, System json.RawMessage
		}
		must.Do(t, json.Unmarshal(line, &c))
		url := map[string]string{"openai.chat": "https://api.openai.com/v1/chat/completions", "anthropic.messages": "https://api.anthropic.com/v1/messages"}[c.Format]
		for i, m := range c.Messages {
			var message struct{ Role string }
			if json.Unmarshal(m, &message) != nil || message.Role != "assistant" || url == "" || i == 0 {
				continue
			}
			root := map[string]any{"model": c.Model, "messages": c.Messages[:i]}
			if c.Tools != nil {
				root["tools"] = c.Tools
			}
			if c.System != nil {
				root["system"] = c.System
			}
			request, _ := json.Marshal(root)
			response := fmt.Appendf(nil, `{"id":"r%d-%d","choices":[{"index":0,"message":%s,"finish_reason":"stop"}]}`, n, i, m)
			all = append(all, turn{fmt.Sprintf("%016x", uint64(n+1)*0x9e3779b97f4a7c15), url, request, response})
		}
	})
	return all
}

// interleave reorders turns of consecutive conversations so that n conversations are concurrent.
func interleave(turns []turn, n int) (all []turn) {
	var waiting [][]turn
	for _, c := range turns {
		if k := len(waiting) - 1; k >= 0 && waiting[k][0].conversation == c.conversation {
			waiting[k] = append(waiting[k], c)
		} else {
			waiting = append(waiting, []turn{c})
		}
	}
	for len(waiting) > 0 {
		for i := min(n, len(waiting)) - 1; i >= 0; i-- {
			all = append(all, waiting[i][0])
			if waiting[i] = waiting[i][1:]; len(waiting[i]) == 0 {
				waiting = slices.Delete(waiting, i, i+1)
			}
		}
	}
	return all
}
