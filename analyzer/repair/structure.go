package repair

import (
	"bytes"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// role gives a message a role that the provider knows.
func role(e *edit) bool {
	i := e.violation.Message
	m := &e.request.Messages[i]
	to := "user"
	switch name := strings.ToLower(string(m.RoleName)); {
	case name == "developer" && e.violation.Detail == "developer" && !e.dialect.Pairing.Blocks:
		to = "system"
	case name == "model", name == "assistant", name == "ai", name == "bot", name == "agent", len(m.Calls) > 0:
		to = e.dialect.Words.Assistant
	case e.dialect.Pairing.Items || e.dialect.Pairing.Blocks:
	case e.raw(i, "/tool_call_id") != nil:
		to = "tool"
	}
	e.set(element{message: i}, "/role", quote(to))
	e.say("changes the role to %s", to)
	return true
}

// systemMessage moves a late system message to the beginning, or makes it a user message if there is a system message already, or
// if the system prompt is not a message.
func systemMessage(e *edit) bool {
	i := e.violation.Message
	if first := &e.request.Messages[0]; !first.Role.Instructs() && !e.dialect.Pairing.Blocks {
		e.move(e.message(i), e.message(0))
		e.say("moves the system message to the beginning")
		return true
	}
	e.replace(e.message(i)+"/role", quote("user"))
	e.say("changes the role to user")
	return true
}

// merge joins a message with the one before it, which has the same role.
func merge(e *edit) bool {
	i := e.violation.Message
	if i == 0 || e.request.Messages[i-1].Role != e.request.Messages[i].Role {
		return false
	}
	key := "/" + e.dialect.Places.Parts
	before, content := e.raw(i-1, key), e.raw(i, key)
	e.say("joins two messages of one role")
	if !e.dialect.Pairing.Blocks {
		m := &e.request.Messages[i-1]
		if len(m.Calls) > 0 || m.Fields&^m.NullFields != 0 || len(before) < 2 || len(content) < 2 || before[0] != '"' || content[0] != '"' {
			return false
		}
		e.replace(e.message(i)+key, join(before[:len(before)-1], `\n\n`, content[1:]))
		e.remove(e.message(i - 1))
		return true
	}
	if len(before) == 0 || len(content) == 0 || before[0] != '[' || content[0] != '[' {
		return false
	}
	n := e.request.Messages[i-1].PartCount
	for c := range children(content, 0) {
		e.add(e.message(i-1)+key+"/"+itoa(n), content[c.value:c.end:c.end])
		n++
	}
	e.remove(e.message(i))
	return true
}

// userFirst adds a user message before an assistant message that begins the history.
func userFirst(e *edit) bool {
	e.add(e.message(e.violation.Message), e.userMessage(beginning))
	e.say("adds a user message, which says that the beginning is missing")
	return true
}

// userMissing adds a user message to a history without any.
func userMissing(e *edit) bool {
	if e.violation.Detail == "empty" {
		return false
	}
	at := 0
	for at < len(e.request.Messages) && e.request.Messages[at].Role.Instructs() {
		at++
	}
	text := beginning
	if at == len(e.request.Messages) {
		text = "Continue."
	}
	e.add(e.message(at), e.userMessage(text))
	e.say("adds a user message")
	return true
}

// userLast adds a user message behind an answer that ends the history.
func userLast(e *edit) bool {
	e.add(e.message(len(e.request.Messages)), e.userMessage("Continue."))
	e.say(`adds the user message "Continue.", which the model can answer`)
	return true
}

// messageName writes the name of a message in the form of the provider, and removes it where none is allowed.
func messageName(e *edit) bool {
	i := e.violation.Message
	m := &e.request.Messages[i]
	if e.violation.Detail == "any" || m.Role == facts.RoleTool {
		e.remove(e.message(i) + "/name")
		e.say("removes the name of the message")
		e.lose("the name %s of message %d", quoteName(m.Name), i)
		return true
	}
	legal := bytes.Map(func(c rune) rune {
		if c > '~' || c <= ' ' || strings.ContainsRune(`<|\/>`, c) {
			return '_'
		}
		return c
	}, m.Name)
	e.replace(e.message(i)+"/name", quote(legal))
	e.say("writes the name of the message as %s", legal)
	return true
}

// everyMessage returns a violation for each message that breaks the rule by itself, because the rule reports only the first.
func everyMessage(f *fixing, v check.Violation) (all []check.Violation) {
	m := mini{target: f.target, rule: v.Rule, lenient: f.options.Lenient}
	for i := range f.request.Messages {
		x := &f.request.Messages[i]
		if found, broken := m.violation(f.body[x.Start:x.End]); broken {
			found.Message = i
			found.Summary = strings.Replace(found.Summary, "message 0 ", "message "+itoa(i)+" ", 1)
			all = append(all, found)
		}
	}
	return all
}

// A mini checks one message alone.
type mini struct {
	target  wire.Target
	rule    *check.Rule
	lenient bool
	request facts.Request
	checker *check.Checker
}

// violation returns the first violation of the rule in a message, and whether there is one to repair.
func (m *mini) violation(message []byte) (check.Violation, bool) {
	if m.checker == nil {
		m.checker = check.NewChecker([]*check.Rule{m.rule})
	}
	if facts.ScanMessages(m.target.Dialect, join(`[`, message, `]`), &m.request) != nil {
		return check.Violation{}, false
	}
	for _, v := range m.checker.Check(&m.request, m.target, nil) {
		if v.Predicted == check.Reject || m.lenient {
			return v, true
		}
	}
	return check.Violation{}, false
}

// kept are members that are never removed as unexpected.
var kept = []string{"role", "content", "parts", "type", "tool_call_id", "call_id", "text"}

// unexpectedFields removes the members of a message that the provider refuses. Which they are is found by trial: a member is
// removed if the violation is gone, or is another one, without it.
func unexpectedFields(e *edit) bool {
	x := &e.request.Messages[e.violation.Message]
	text := e.body[x.Start:x.End]
	m := mini{target: e.target, rule: e.violation.Rule, lenient: e.options.Lenient}
	var names []string
	for range maxFields {
		v, broken := m.violation(text)
		if !broken {
			break
		}
		pointer := ""
		for p := range members(text, "", 0) {
			without, err := remove(text, p)
			if err != nil {
				continue
			}
			if other, still := m.violation(without); !still || other.Summary != v.Summary {
				pointer, text = p, without
				break
			}
		}
		if pointer == "" {
			break
		}
		e.remove(e.message(e.violation.Message) + pointer)
		names = append(names, pointer[strings.LastIndexByte(pointer, '/')+1:])
	}
	if len(names) == 0 {
		return false
	}
	e.say("removes %s", strings.Join(names, ", "))
	e.lose("%s of message %d", strings.Join(names, ", "), e.violation.Message)
	return true
}

// maxFields bounds the members that are removed from a message in one step.
const maxFields = 100

// members yields the pointers of all members in a message that may be unexpected, outer before inner ones, down to the members
// of the function of a call.
func members(text []byte, pointer string, depth int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		c, _, ok := find(text, pointer)
		if !ok || depth > 4 {
			return
		}
		var inner []string
		n := 0
		for x := range children(text, c.value) {
			p := pointer + "/" + escape(x.key)
			if text[c.value] == '[' {
				p = pointer + "/" + itoa(n)
				n++
			} else if !slices.Contains(kept, x.key) && !yield(p) {
				return
			}
			if x.key != "arguments" && x.key != "input" && x.key != "args" && x.key != "response" {
				inner = append(inner, p)
			}
		}
		for _, p := range inner {
			for q := range members(text, p, depth+1) {
				if !yield(q) {
					return
				}
			}
		}
	}
}

// noReasoning removes reasoning that the provider refuses.
func noReasoning(e *edit) bool {
	i := e.violation.Message
	e.remove(e.message(i) + "/" + e.violation.Detail)
	e.say("removes %s", e.violation.Detail)
	e.lose("%s of message %d", e.violation.Detail, i)
	return true
}

// reasoning restores the reasoning of a message with calls from the model's answer, or says that there is none.
func reasoning(e *edit) bool {
	i := e.violation.Message
	text := quote("")
	e.say("adds an empty reasoning_content")
	for j := range e.request.Messages[i].Calls {
		a := e.answerWith(e.request.Messages[i].Calls[j].ID)
		if a == nil {
			continue
		}
		if v := value(a.raw, "/reasoning_content"); len(v) > 0 && v[0] == '"' {
			text = v
			e.did = []string{"restores reasoning_content from the model's answer"}
			break
		}
	}
	e.set(element{message: i}, "/reasoning_content", text)
	return true
}

// noSignature is the value with which Gemini accepts a call that has no signature of its own.
// Source: ai.google.dev/gemini-api/docs/thought-signatures.
const noSignature = "skip_thought_signature_validator"

func signature(e *edit) bool {
	c := e.callWith(func(c *check.PairedCall) bool { return c.Signature <= facts.Null })
	if c == nil {
		return false
	}
	if e.dialect.Pairing.Items {
		return e.thought(c)
	}
	at, ok := e.callAt(c)
	if !ok {
		return false
	}
	e.say("adds the signature with which Gemini accepts a call without its own")
	switch {
	case e.target.Dialect == wire.Gemini:
		e.set(at, "/thoughtSignature", quote(noSignature))
	case e.raw(at.message, at.within+"/extra_content/google") != nil:
		e.set(at, "/extra_content/google/thought_signature", quote(noSignature))
	default:
		e.set(at, "/extra_content", join(`{"google":{"thought_signature":`, quote(noSignature), `}}`))
	}
	return true
}

// thought restores the signed step of the answer before its calls, among which c is.
func (e *edit) thought(c *check.PairedCall) bool {
	if e.answerWith(c.Call.ID) == nil {
		return false
	}
	i := slices.IndexFunc(e.answers, func(a answer) bool { return a.calls(c.Call.ID) })
	for i > 0 && e.answers[i].facts.Messages[0].Item == facts.ItemCall {
		i--
	}
	if e.answers[i].facts.Messages[0].Signed == 0 {
		return false
	}
	e.add(e.message(c.Message), e.answers[i].raw)
	e.say("restores the thought with the signature from the model's answer")
	return true
}

// signedReasoning takes signed reasoning that was changed or left out from the model's answer.
func signedReasoning(e *edit) bool {
	i := e.violation.Message
	for j := range e.answers {
		if a := &e.answers[j]; a.facts.Messages[0].Signed != 0 && e.answerOf(&e.request.Messages[i]) == &a.facts.Messages[0] {
			e.set(element{message: i}, "/content", value(a.raw, "/content"))
			e.say("restores the content from the model's answer")
			return true
		}
	}
	return e.violation.Detail == "no_signature" && e.removeUnsigned(i)
}

// removeUnsigned removes the thinking of message i that has no signature.
func (e *edit) removeUnsigned(i int) bool {
	n := -1
	var unsigned []int
	for c := range children(e.raw(i, "/content"), 0) {
		n++
		block := e.raw(i, "/content")[c.value:c.end]
		signature := value(block, "/signature")
		thinking := string(value(block, "/type")) == `"thinking"`
		if e.target.Dialect == wire.Bedrock {
			thinking, signature = value(block, "/reasoningContent/reasoningText") != nil, value(block, "/reasoningContent/reasoningText/signature")
		}
		if thinking && (len(signature) == 0 || signature[0] != '"') {
			unsigned = append(unsigned, n)
		}
	}
	for _, n := range slices.Backward(unsigned) {
		e.remove(e.message(i) + "/content/" + itoa(n))
	}
	e.say("removes thinking without a signature")
	e.lose("the thinking of message %d", i)
	return len(unsigned) > 0
}

// unpairedReasoning removes a reasoning item that the provider refuses without the item that followed it.
func unpairedReasoning(e *edit) bool {
	i := e.violation.Message
	if e.violation.Detail == "no_reasoning_item" {
		e.remove(e.message(i) + "/id")
		e.say("removes the id of the item, so that it needs no reasoning item")
		return true
	}
	e.remove(e.message(i))
	e.say("removes a reasoning item without the item that followed it")
	e.lose("the reasoning item %s", quoteName(e.request.Messages[i].ID))
	return true
}

// declareTools declares the functions that the history calls.
func declareTools(e *edit) bool {
	var names [][]byte
	for i := range e.pairs.Calls {
		if name := e.pairs.Calls[i].Name; len(name) > 0 && !slices.ContainsFunc(names, func(n []byte) bool { return bytes.Equal(n, name) }) {
			names = append(names, name)
		}
	}
	if len(names) == 0 || e.base == "" {
		return false
	}
	var tools [][]byte
	for _, name := range names {
		tools = append(tools, fill(e.dialect.Texts.Tool, "$name", string(name)))
	}
	list := join(`[`, bytes.Join(tools, []byte(",")), `]`)
	if config, member, ok := strings.Cut(e.dialect.Places.Tools[1:], "/"); ok && value(e.body, "/"+config) == nil {
		e.add("/"+config, join(`{"`, member, `":`, list, `}`))
	} else {
		e.add(e.dialect.Places.Tools, list)
	}
	e.say("declares the functions that the history calls, without their parameters")
	return true
}

// noToolChoice removes what selects tools in a request without tools.
func noToolChoice(e *edit) bool {
	for _, key := range [...]string{"tools", "tool_choice", "parallel_tool_calls"} {
		if value(e.body, "/"+key) != nil {
			e.remove("/" + key)
			e.say("removes %s", key)
		}
	}
	return true
}

// maxTools is the number of tools that a request may declare.
const maxTools = 128

// fewerTools removes tools that are declared twice, or those beyond the limit that the history does not call.
func fewerTools(e *edit) bool {
	var pointers []string
	var names []string
	for pointer, tool := range e.tools() {
		name := value(tool, "/function/name")
		if name == nil {
			name = value(tool, "/name")
		}
		pointers, names = append(pointers, pointer), append(names, string(name))
	}
	called := map[string]bool{}
	for i := range e.pairs.Calls {
		called[string(quote(e.pairs.Calls[i].Name))] = true
	}
	left := len(names)
	for i, name := range slices.Backward(names) {
		switch {
		case e.violation.Detail == "duplicate_name" && name != "" && slices.Contains(names[:i], name):
		case e.violation.Detail == "too_many" && left > maxTools && !called[name]:
			e.lose("the tool %s", strings.Trim(name, `"`))
		default:
			continue
		}
		e.remove(pointers[i])
		left--
	}
	e.say("removes %d tools", len(names)-left)
	return len(e.ops) > 0
}

// A fixer repairs the violations of a rule. It returns false if it cannot.
type fixer struct {
	rule *check.Rule
	fix  func(e *edit) bool
	// all, if set, returns the violations to repair for a rule that reports only some of them.
	all func(f *fixing, v check.Violation) []check.Violation
}

// fixers are in the order in which rules are repaired: the form of calls, ids, order, missing halves, contents, fields, turns,
// and the request.
var fixers = []fixer{
	{rule: rules.LegacyFunctionRole, fix: legacy},
	{rule: rules.MalformedToolCall, fix: malformedCall},
	{rule: rules.EmptyToolCallsArray, fix: emptyCalls},
	{rule: rules.UnsupportedRole, fix: role},
	{rule: rules.FunctionNameFormat, fix: functionName},

	{rule: rules.UnexpectedMessageField, fix: misnamedID, all: everyMessage},
	{rule: rules.DuplicateItemID, fix: duplicateItem},
	{rule: rules.DuplicateCallIDInMessage, fix: duplicateID},
	{rule: rules.ToolCallIDFormat, fix: idFormat},
	{rule: rules.DuplicateCallIDInHistory, fix: duplicateID},
	{rule: rules.MissingToolCallID, fix: unknownID},
	{rule: rules.UnknownToolCallID, fix: unknownID},

	{rule: rules.ToolReplyBeforeCall, fix: moveReply},
	{rule: rules.LateToolReply, fix: moveReply},

	{rule: rules.OrphanToolReply, fix: orphan},
	{rule: rules.DuplicateToolReply, fix: duplicateReply},
	{rule: rules.MissingToolReply, fix: missingReply},
	{rule: rules.ToolResultNotFirst, fix: repliesFirst},

	{rule: rules.ArgumentsNotString, fix: arguments},
	{rule: rules.ArgumentsNotObject, fix: arguments},
	{rule: rules.ArgumentsInvalidJSON, fix: arguments},
	{rule: rules.ToolContentMissing, fix: replyContent},
	{rule: rules.ToolContentNotString, fix: replyString},
	{rule: rules.ToolContentPartUnsupported, fix: replyParts},
	{rule: rules.AssistantContentMissing, fix: noContent},
	{rule: rules.EmptyContent, fix: emptyMessage},
	{rule: rules.NullContentWithCalls, fix: nullContent},
	{rule: rules.DocumentWithoutText, fix: documentText},
	{rule: rules.AudioInputUnsupported, fix: noAudio},

	{rule: rules.MessageNameFormat, fix: messageName},
	{rule: rules.UnexpectedMessageField, fix: unexpectedFields, all: everyMessage},
	{rule: rules.ReasoningContentForbidden, fix: noReasoning},
	{rule: rules.ReasoningContentMissing, fix: reasoning},
	{rule: rules.ThoughtSignatureMissing, fix: signature},
	{rule: rules.ReasoningItemUnpaired, fix: unpairedReasoning},
	{rule: rules.ReasoningSignatureInvalid, fix: signedReasoning},
	{rule: rules.ThinkingBlockMissing, fix: signedReasoning},

	{rule: rules.SystemNotFirst, fix: systemMessage},
	{rule: rules.RoleAlternationBroken, fix: merge},
	{rule: rules.NoUserMessage, fix: userMissing},
	{rule: rules.FirstMessageRole, fix: userFirst},
	{rule: rules.LastMessageRole, fix: userLast},

	{rule: rules.ToolsLimitExceeded, fix: fewerTools},
	{rule: rules.ToolsMissingWithToolHistory, fix: declareTools},
	{rule: rules.ToolChoiceWithoutTools, fix: noToolChoice},
}
