package repair

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"slices"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// arguments writes the arguments of a call in the type that the provider requires.
func arguments(e *edit) bool {
	want := facts.String
	if e.dialect.Pairing.Blocks || e.target.Native || e.target.Dialect == wire.Interactions {
		want = facts.Object
	}
	c := e.callWith(func(c *check.PairedCall) bool {
		return c.FuncKind == facts.Object && (c.ArgsKind != want || want == facts.String && c.Args > facts.ArgsEmpty)
	})
	if c == nil {
		return false
	}
	at, ok := e.callAt(c)
	if !ok {
		return false
	}
	raw := e.raw(at.message, e.member(at, e.dialect.Places.Arguments))
	object, lost := argumentsObject(raw)
	if said := e.saidArguments(c); lost && said != nil {
		if whole, cut := argumentsObject(said); !cut {
			object, lost = whole, false
			e.say("takes the arguments from the model's answer")
		}
	}
	if lost {
		e.lose("the arguments of call %s in message %d (%d bytes)", quoteName(c.ID), c.Message, len(raw))
	}
	if want == facts.Object {
		e.set(at, e.dialect.Places.Arguments, object)
		e.say("writes the arguments as an object")
	} else {
		e.set(at, e.dialect.Places.Arguments, quote(object))
		e.say("writes the arguments as a string with a JSON object")
	}
	return true
}

// saidArguments returns the arguments of a call in the model's answer, or nil.
func (e *edit) saidArguments(c *check.PairedCall) []byte {
	a := e.answerWith(c.Call.ID)
	if a == nil || e.dialect.Pairing.Names {
		return nil
	}
	if e.dialect.Pairing.Items {
		return value(a.raw, e.dialect.Places.Arguments)
	}
	all := value(a.raw, "/"+e.calls())
	for x := range children(all, 0) {
		if call := all[x.value:x.end]; bytes.Equal(value(call, e.dialect.Places.CallID), quote(c.Call.ID)) {
			return value(call, e.dialect.Places.Arguments)
		}
	}
	return nil
}

// argumentsObject returns the JSON object in raw, which may be quoted, cut off, or the first of several values. lost reports
// whether raw contains something that the object does not.
func argumentsObject(raw []byte) (object []byte, lost bool) {
	text := bytes.TrimSpace(raw)
	for range 2 { // arguments that were encoded twice
		if len(text) == 0 || text[0] != '"' {
			break
		}
		text = bytes.TrimSpace(jsonscan.AppendText(nil, text[1:len(text)-1]))
	}
	if len(text) == 0 || string(text) == "null" || string(text) == "[]" {
		return []byte("{}"), false
	}
	if jsonscan.Valid(text) {
		if text[0] == '{' {
			return compact(text), false
		}
		return []byte("{}"), true
	}
	var values [][]byte // of several values in one string, often {} and then the arguments
	for i := 0; i < len(text) && text[i] == '{'; {
		end, ok := jsonscan.ValueEnd(text, i)
		if !ok {
			break
		}
		values = append(values, text[i:end])
		i = jsonscan.Space(text, end)
	}
	for _, v := range values {
		if jsonscan.Space(v, 1) < len(v)-1 {
			return compact(v), len(values) > 2 || len(values) == 2 && jsonscan.Space(values[1], 1) < len(values[1])-1 && &v[0] != &values[1][0]
		}
	}
	if closed := closeJSON(text); closed != nil && closed[0] == '{' {
		return compact(closed), true
	}
	return []byte("{}"), true
}

func compact(v []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return v
	}
	return b.Bytes()
}

// mostCut bounds what closeJSON cuts off: an incomplete key, number or escape.
const mostCut = 64

// closeJSON closes the strings, arrays and objects of a text that was cut off, after the last complete value; nil if there is
// none.
func closeJSON(text []byte) []byte {
	for n := len(text); n > 0 && n > len(text)-mostCut; n-- {
		closed := bytes.TrimRight(text[:n:n], ", \t\r\n")
		if closed = append(bytes.Clone(closed), brackets(closed)...); jsonscan.Valid(closed) {
			return closed
		}
	}
	return nil
}

// brackets returns the quote and the brackets that close text.
func brackets(text []byte) (closing []byte) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			closing = append(closing, c+2) // } and ] are two behind { and [
		case (c == '}' || c == ']') && len(closing) > 0:
			closing = closing[:len(closing)-1]
		}
	}
	if quoted {
		closing = append(closing, '"')
	}
	slices.Reverse(closing)
	return closing
}

// malformedCall writes a call in the form of chat completions, and removes it if it names no function.
func malformedCall(e *edit) bool {
	if e.violation.Detail == "no_namespace" {
		return e.setNamespace()
	}
	c := e.malformed()
	if c == nil {
		return false
	}
	at, ok := e.callAt(c)
	if !ok {
		return false
	}
	switch e.violation.Detail {
	case "no_id":
		e.set(at, "/id", quote(e.newID([]byte(itoa(c.Message)+"."+itoa(at.index)))))
		e.say("gives the call an id")
		return true
	case "no_type":
		e.set(at, "/type", quote("function"))
		e.say("sets the type of the call to function")
		return true
	case "no_function": // frameworks have flat calls: {"id", "name", "args"}
		name := e.first(at, "/name", "/function", "/tool", "/tool_name", "/toolName")
		if len(name) < 3 || name[0] != '"' {
			break
		}
		args := e.first(at, "/arguments", "/args", "/input", "/parameters")
		switch {
		case args == nil:
			args = quote("{}")
		case args[0] != '"':
			args = quote(compact(args))
		}
		id := quote(c.Call.ID)
		if len(c.Call.ID) == 0 {
			if id = e.first(at, "/tool_call_id", "/toolCallId", "/call_id"); len(id) < 3 || id[0] != '"' {
				id = quote(e.newID([]byte(itoa(c.Message) + "." + itoa(at.index))))
			}
		}
		e.replace(e.pointer(at), join(`{"id":`, id, `,"type":"function","function":{"name":`, []byte(name), `,"arguments":`, []byte(args), `}}`))
		e.say("writes the call in the form of chat completions")
		return true
	}
	return e.removeCall(c, "a call that names no function")
}

// malformed returns the first call of the violation's message that has the violation's defect.
func (e *edit) malformed() *check.PairedCall {
	for i := range e.pairs.Calls {
		c := &e.pairs.Calls[i]
		if c.Message != e.violation.Message || string(c.Call.ID) != e.violation.ToolCallID || string(c.Name) != e.violation.ToolName {
			continue
		}
		is := false
		switch e.violation.Detail {
		case "not_object":
			is = c.Kind != facts.Object
		case "no_function":
			is = c.FuncKind != facts.Object
		default:
			is = true
		}
		if is {
			return c
		}
	}
	return nil
}

// first returns the first member of an element that exists.
func (e *edit) first(at element, pointers ...string) []byte {
	for _, p := range pointers {
		if v := e.raw(at.message, at.within+p); v != nil {
			return v
		}
	}
	return nil
}

func emptyCalls(e *edit) bool {
	e.remove(e.message(e.violation.Message) + "/tool_calls")
	e.say("removes tool_calls, which is empty")
	return true
}

// emptyMessage removes what is empty from a message, and the message if nothing is left.
func emptyMessage(e *edit) bool {
	i := e.violation.Message
	m := &e.request.Messages[i]
	key := "/" + e.dialect.Places.Parts
	if e.violation.Detail == "error" { // of a reply of Bedrock
		r := e.replyWith(func(r *check.Reply) bool { return r.IsError && r.PartCount == 0 })
		if r == nil {
			return false
		}
		at, ok := e.replyAt(r)
		if ok {
			e.set(at, e.dialect.Places.Output, join(`[`, e.textPart("Error: no text was given."), `]`))
			e.say("writes a text into the error")
		}
		return ok
	}
	content, left := e.raw(i, key), 0
	var blank []int
	if len(content) > 0 && content[0] == '[' {
		n := 0
		for c := range children(content, 0) {
			text := value(content[c.value:c.end], "/text")
			if len(text) > 1 && text[0] == '"' && len(bytes.TrimSpace(jsonscan.AppendText(nil, text[1:len(text)-1]))) == 0 {
				blank = append(blank, n)
			} else {
				left++
			}
			n++
		}
	}
	switch {
	case left > 0:
		for _, n := range slices.Backward(blank) {
			e.remove(e.message(i) + key + "/" + itoa(n))
		}
		e.say("removes a text part that is empty")
	case len(m.Calls) > 0 || m.Reasoning > facts.Null:
		e.set(element{message: i}, key, quote(""))
		e.say("writes the content as an empty text")
	default:
		e.remove(e.message(i))
		e.say("removes a message that says nothing")
	}
	return true
}

// noContent removes an assistant message without content and calls.
func noContent(e *edit) bool {
	i := e.violation.Message
	if e.request.Messages[i].Reasoning > facts.Null && !e.dialect.Pairing.Blocks && !e.dialect.Pairing.Items {
		e.set(element{message: i}, "/content", quote(""))
		e.say("writes the content as an empty text")
		return true
	}
	e.remove(e.message(i))
	e.say("removes an answer that says nothing")
	return true
}

func nullContent(e *edit) bool {
	e.set(element{message: e.violation.Message}, "/content", quote(""))
	e.say("writes the content as an empty text")
	return true
}

// replyContent writes content into a reply that has none.
func replyContent(e *edit) bool {
	r := e.replyWith(func(r *check.Reply) bool { return r.Content <= facts.Null })
	if r == nil {
		return false
	}
	at, ok := e.replyAt(r)
	if !ok {
		return false
	}
	e.set(at, e.dialect.Places.Output, []byte(cmp.Or(e.dialect.Texts.NoOutput, `""`)))
	e.say("gives the reply empty content")
	return true
}

// replyString writes the content of a tool message as a string.
func replyString(e *edit) bool {
	r := e.replyWith(func(r *check.Reply) bool { return r.Content > facts.Null && r.Content != facts.String })
	if r == nil {
		return false
	}
	at, ok := e.replyAt(r)
	if !ok {
		return false
	}
	e.set(at, e.dialect.Places.Output, quote(compact(e.raw(at.message, at.within+e.dialect.Places.Output))))
	e.say("writes the content as a string with the JSON")
	return true
}

// replyParts moves images and files out of a reply, and replaces audio by a note.
func replyParts(e *edit) bool {
	r := e.replyWith(func(r *check.Reply) bool { return r.Parts&(facts.PartImage|facts.PartAudio|facts.PartFile) != 0 })
	if r == nil {
		return false
	}
	at, ok := e.replyAt(r)
	if !ok {
		return false
	}
	within := e.member(at, e.dialect.Places.Output)
	if e.target.Dialect == wire.Gemini {
		within = e.member(at, "/functionResponse/parts")
	}
	content := e.raw(at.message, within)
	var moved [][]byte
	var ops []Operation
	n := 0
	for c := range children(content, 0) {
		part := content[c.value:c.end:c.end]
		if kind := partKind(part); kind != "" {
			note := "[" + kind + " removed]"
			if kind == "audio" && !e.dialect.Pairing.Blocks {
				e.lose("the audio in message %d (%d bytes)", at.message, len(part))
			} else {
				note = "[" + kind + ": see the next user message]"
				moved = append(moved, part)
			}
			ops = append(ops, Operation{Op: "replace", Path: e.message(at.message) + within + "/" + itoa(n), Value: e.textPart(note)})
		}
		n++
	}
	if len(ops) == 0 {
		return false
	}
	if e.target.Dialect == wire.Gemini {
		e.remove(e.message(at.message) + within)
	} else {
		e.ops = append(e.ops, ops...)
	}
	switch {
	case len(moved) == 0:
	case e.dialect.Pairing.Blocks:
		for i, part := range moved {
			e.add(e.message(at.message)+"/"+e.dialect.Places.Parts+"/"+itoa(e.request.Messages[at.message].PartCount+i), part)
		}
	case r.Group >= 0:
		e.add(e.message(e.pairs.Groups[r.Group].End), e.userParts(moved...))
	default:
		return false
	}
	e.say("moves what is not text behind the replies")
	return true
}

// partKind returns the kind of a part that is not text; "" for text and unknown parts.
func partKind(part []byte) string {
	for _, k := range [...]struct{ key, kind string }{
		{"image_url", "image"},
		{"image", "image"},
		{"source", "image"},
		{"input_audio", "audio"},
		{"audio", "audio"},
		{"file", "file"},
		{"document", "file"},
		{"inlineData", "file"},
		{"inline_data", "file"},
		{"fileData", "file"},
		{"file_data", "file"},
	} {
		if value(part, "/"+k.key) != nil {
			return k.kind
		}
	}
	return ""
}

// noAudio replaces the audio parts of a message by a note.
func noAudio(e *edit) bool {
	i := e.violation.Message
	content, n := e.raw(i, "/content"), 0
	for c := range children(content, 0) {
		if part := content[c.value:c.end]; partKind(part) == "audio" {
			e.replace(e.message(i)+"/content/"+itoa(n), e.textPart("[audio removed]"))
			e.lose("the audio in message %d (%d bytes)", i, len(part))
		}
		n++
	}
	e.say("replaces the audio by a note")
	return n > 0
}

func documentText(e *edit) bool {
	e.add(e.message(e.violation.Message)+"/content/"+itoa(e.request.Messages[e.violation.Message].PartCount), e.textPart("See the document."))
	e.say("adds a text to the document")
	return true
}

// tools yields the pointer and the text of each declared tool.
func (e *edit) tools() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, list := range [...]string{"/tools", "/toolConfig/tools"} {
			all, n := value(e.body, list), 0
			for c := range children(all, 0) {
				if !yield(list+"/"+itoa(n), all[c.value:c.end]) {
					return
				}
				n++
			}
		}
	}
}

// setNamespace sets the namespace of a call if only one declares its function.
func (e *edit) setNamespace() bool {
	var spaces []json.RawMessage
	tools := value(e.body, e.dialect.Places.Tools)
	for c := range children(tools, 0) {
		space := tools[c.value:c.end]
		inner := value(space, "/tools")
		for f := range children(inner, 0) {
			var name string
			if json.Unmarshal(value(inner[f.value:f.end], "/name"), &name) == nil && name == e.violation.ToolName {
				spaces = append(spaces, value(space, "/name"))
			}
		}
	}
	if len(spaces) != 1 || len(spaces[0]) == 0 {
		return false
	}
	e.set(element{message: e.violation.Message}, "/namespace", spaces[0])
	e.say("sets the namespace of the call to the one that declares its function")
	return true
}
