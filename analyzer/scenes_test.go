package analyzer_test

import (
	"strings"

	"github.com/llmtap/llmtap/ingest/dialect"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A dialectScene writes histories, which scenes share, in one dialect. A message is "s text", "u text", "a text; 1 f, 2 g" with
// the numbers and functions of calls, or "t 1 2" with the numbers of the answered calls.
type dialectScene struct {
	name, url string
	id        func(n string) string
	write     func(d *dialectScene, m string) []msg // the message, or its items
	names     bool                                  // calls have no ids
	short     bool                                  // ids are not unique
}

func randomID(prefix string) func(string) string {
	return func(n string) string { return prefix + "8Jq3Xc7LmP0vRt5Zw" + n }
}

func dialectScenes() []*dialectScene {
	return []*dialectScene{
		{name: "chat", url: openAIURL, id: randomID("call_"), write: writeChat},
		{name: "chat, short ids", url: deepSeekURL, id: func(n string) string { return "call_" + n }, write: writeChat, short: true},
		{name: "responses", url: responsesURL, id: randomID("call_"), write: writeItems},
		{name: "anthropic", url: "https://api.anthropic.com/v1/messages", id: randomID("toolu_01"), write: writeAnthropic},
		{name: "bedrock", url: "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse", id: randomID("tooluse_"), write: writeBedrock},
		{name: "gemini", url: "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:generateContent", id: randomID("fc-"), write: writeGemini},
		{name: "gemini, no ids", url: "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent", write: writeGemini, names: true, short: true},
	}
}

// parseMessage returns the parts of a message.
func parseMessage(m string) (kind, text string, calls [][2]string, replies []string) {
	kind, rest, _ := strings.Cut(m, " ")
	if kind == "t" {
		return kind, "", nil, strings.Fields(rest)
	}
	text, list, _ := strings.Cut(rest, ";")
	for c := range strings.SplitSeq(list, ",") {
		if n, name, ok := strings.Cut(strings.TrimSpace(c), " "); ok {
			calls = append(calls, [2]string{n, name})
		}
	}
	return kind, strings.TrimSpace(text), calls, nil
}

func writeChat(d *dialectScene, m string) []msg {
	kind, text, calls, replies := parseMessage(m)
	switch kind {
	case "s":
		return []msg{system(text)}
	case "u":
		return []msg{user(text)}
	case "t":
		var list []msg
		for _, n := range replies {
			list = append(list, tool(d.id(n), "result of "+n))
		}
		return list
	}
	var ids []string
	for _, c := range calls {
		ids = append(ids, d.id(c[0])+" "+c[1])
	}
	return []msg{assistant(text, ids...)}
}

func writeItems(d *dialectScene, m string) []msg {
	kind, text, calls, replies := parseMessage(m)
	var list []msg
	switch {
	case kind == "a" && text != "":
		list = append(list, msg{"type": "message", "id": "msg_" + text, "role": "assistant", "status": "completed", "content": []msg{{"type": "output_text", "text": text}}})
	case kind == "s" || kind == "u":
		list = append(list, msg{"role": map[string]string{"s": "system", "u": "user"}[kind], "content": text})
	}
	for _, c := range calls {
		list = append(list, msg{"type": "function_call", "id": "fc_" + c[0], "call_id": d.id(c[0]), "name": c[1], "arguments": "{}"})
	}
	for _, n := range replies {
		list = append(list, msg{"type": "function_call_output", "call_id": d.id(n), "output": "result of " + n})
	}
	return list
}

// writeBlocks writes a message of parts.
func writeBlocks(m, assistant, content string, text func(string) msg, call, reply func(n, name string) msg) []msg {
	kind, said, calls, replies := parseMessage(m)
	role := "user"
	if kind == "a" {
		role = assistant
	}
	parts := []msg{}
	if said != "" {
		parts = append(parts, text(said))
	}
	for _, c := range calls {
		parts = append(parts, call(c[0], c[1]))
	}
	for _, n := range replies {
		n, name, _ := strings.Cut(n, ":")
		parts = append(parts, reply(n, name))
	}
	return []msg{{"role": role, content: parts}}
}

func writeAnthropic(d *dialectScene, m string) []msg {
	return writeBlocks(m, "assistant", "content", func(s string) msg { return msg{"type": "text", "text": s} },
		func(n, name string) msg {
			return msg{"type": "tool_use", "id": d.id(n), "name": name, "input": msg{}}
		},
		func(n, _ string) msg {
			return msg{"type": "tool_result", "tool_use_id": d.id(n), "content": "result of " + n}
		})
}

func writeBedrock(d *dialectScene, m string) []msg {
	return writeBlocks(m, "assistant", "content", func(s string) msg { return msg{"text": s} },
		func(n, name string) msg {
			return msg{"toolUse": msg{"toolUseId": d.id(n), "name": name, "input": msg{}}}
		},
		func(n, _ string) msg {
			return msg{"toolResult": msg{"toolUseId": d.id(n), "content": []msg{{"text": "result of " + n}}}}
		})
}

// writeGemini writes a content; a reply is "1:f" there, because it names its function.
func writeGemini(d *dialectScene, m string) []msg {
	with := func(n string, m msg) msg {
		if !d.names {
			m["id"] = d.id(n)
		}
		return m
	}
	return writeBlocks(m, "model", "parts", func(s string) msg { return msg{"text": s} },
		func(n, name string) msg {
			return msg{"functionCall": with(n, msg{"name": name, "args": msg{}})}
		},
		func(n, name string) msg {
			return msg{"functionResponse": with(n, msg{"name": name, "response": msg{"result": "result of " + n}})}
		})
}

// history writes messages; a reply gets the name of its function from the calls of all that was written so far.
func (d *dialectScene) history(names map[string]string, messages ...string) []msg {
	var list []msg
	for _, m := range messages {
		_, _, calls, replies := parseMessage(m)
		for _, c := range calls {
			names[c[0]] = c[1]
		}
		if strings.HasPrefix(d.name, "gemini") && len(replies) > 0 {
			m = "t"
			for _, n := range replies {
				m += " " + n + ":" + names[n]
			}
		}
		list = append(list, d.write(d, m)...)
	}
	return list
}

func (d *dialectScene) target() wire.Target {
	t, _ := wire.DetectURL(d.url)
	return t
}

func (d *dialectScene) request(history []msg) []byte {
	m := msg{d.target().Dialect.Descriptor().Messages: history}
	if d.target().Model == "" {
		m["model"] = "m"
	}
	return body(m)
}

func (d *dialectScene) answer(m string) []byte {
	return response(d.target().Dialect, dialect.Response{Finish: "stop", Example: true}, d.history(map[string]string{}, m)...)
}

// response returns the body of an answer with messages.
func response(d wire.Dialect, r dialect.Response, messages ...msg) []byte {
	for _, m := range messages {
		r.Messages = append(r.Messages, dialect.Object(m))
	}
	return body(msg(dialect.Of(d).Response(&r)))
}

// play adds the exchanges of an agent. The last line of an exchange is the answer, "400" for a refused request, or "500" for
// one without an answer.
func (d *dialectScene) play(conversation string, exchanges ...[]string) *stream {
	s := &stream{now: epoch, url: d.url, labels: event.Labels{Service: "s", Conversation: conversation}}
	names := map[string]string{}
	for _, e := range exchanges {
		n := len(e) - 1
		id := s.exchange()
		s.add(&event.Event{Kind: event.Request, Exchange: id, URL: d.url, Method: "POST", Body: d.request(d.history(names, e[:n]...))})
		switch e[n] {
		case "400":
			s.response(id, 400, []byte(`{"error":{"message":"Request contains an invalid argument."}}`))
		case "500":
			s.response(id, 500, []byte(`{"error":{"message":"try again"}}`))
		default:
			d.history(names, e[n])
			s.response(id, 200, d.answer(e[n]))
		}
	}
	return s
}

// lines splits a scene: one exchange per line, messages separated by "|".
func lines(scene string) (exchanges [][]string) {
	for l := range strings.SplitSeq(strings.TrimSpace(scene), "\n") {
		var e []string
		for m := range strings.SplitSeq(l, "|") {
			e = append(e, strings.TrimSpace(m))
		}
		exchanges = append(exchanges, e)
	}
	return exchanges
}
