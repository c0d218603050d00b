package promptcache

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/llmtap/llmtap/ingest/quantity"
)

// Message returns the index of the message that broke the prefix, or -1.
func (v *Verdict) Message() int {
	if rest, ok := strings.CutPrefix(v.Element, "messages["); ok {
		if n, err := strconv.Atoi(strings.TrimSuffix(rest, "]")); err == nil {
			return n
		}
	}
	return -1
}

// Summary says in a sentence why tokens were not read from the cache; "" if there is no reason.
func (v *Verdict) Summary() string {
	switch v.Reason {
	case ToolsChanged:
		return "the declared tools changed" + v.at()
	case ToolsReordered:
		return "the declared tools are the same in another order" + v.at()
	case SystemChanged:
		return "the system prompt changed" + v.what()
	case MessageEdited:
		return "an old message of the history changed: " + v.Element
	case HistoryCompacted:
		return "old messages of the history were cut or summarized"
	case ParameterChanged:
		return "the parameter " + v.Element + " changed, which is part of the cached prefix"
	case ModelSwitched:
		return "the call before used another model or host, which has a cache of its own"
	case AccountChanged:
		return "the call before had another API key, which seems to be of another account, with a cache of its own"
	case MarkMissing:
		return "nothing in the request is marked for the cache, and the provider caches only what is marked"
	case MarkMoved:
		return "the marks for the cache leave out what was marked before"
	case BeyondLookback:
		return "the marks for the cache are too many blocks after the last one, so the provider does not find what it holds"
	case TooShort:
		return "the prompt is shorter than the provider caches"
	case Idle:
		return "the last call with this prefix was longer ago than the provider holds it"
	case Parallel:
		return "the first calls with this prefix were made at the same time, before one had been answered"
	case RoutingMissing:
		return "many calls share a prefix and have no prompt_cache_key, so that some go to a machine that does not hold it"
	case Varies:
		if v.Element == "system" {
			return "the system prompt differs in each conversation of the stage" + v.what() + ", so that nothing after it is shared"
		}
		return "the declared tools differ in each conversation of the stage" + v.at() + ", so that nothing after them is shared"
	case Evicted:
		return "nothing changed, and the provider no longer had the prefix"
	case VersionChanged:
		return "another version of the service continued the conversation, and its prompts differ: " + v.Element
	}
	return ""
}

func (v *Verdict) at() string {
	if v.Detail == "" {
		return ""
	}
	return ": " + v.Element + " (" + v.Detail + ")"
}

// details are the classes of a changed text in words.
var details = map[string]string{
	DetailTime: "it contains the time", DetailDate: "it contains the date", DetailUUID: "it contains a UUID", DetailCounter: "it contains a counter",
	DetailKeyOrder: "the keys of JSON in it are in another order", DetailUser: "it contains data of the user",
}

func (v *Verdict) what() string {
	if v.Detail == "" {
		return ""
	}
	return ": " + cmp.Or(details[v.Detail], v.Detail)
}

// Evidence says what was missed in a call with these input tokens.
func (v *Verdict) Evidence(input int64) string {
	s := fmt.Sprintf("%s of %s reusable tokens were not read from the cache, in a call with %s input tokens",
		quantity.Count(v.Missed), quantity.Count(v.Reusable), quantity.Count(input))
	if v.Element != "" {
		s += "; the first difference is in " + v.Element
	}
	return s
}

// Fix says what to do about an avoidable reason.
func (v *Verdict) Fix() string {
	switch v.Reason {
	case ToolsChanged:
		return "Declare the same tools in every call of a conversation, and forbid the ones that must not be called now with tool_choice or in a message."
	case ToolsReordered:
		return "Sort the tools by name before you declare them: maps and sets return them in another order each time."
	case SystemChanged:
		return "Put what changes, such as the time, into the newest message, and keep the system prompt of a conversation as it is."
	case MessageEdited:
		return "Only append to a history. Put what changes into the newest message, and save messages exactly as they were sent."
	case ParameterChanged:
		return "Set " + v.Element + " once for a conversation, or use a conversation of its own for calls that need another value."
	case ModelSwitched:
		return "Stay with one model and host for a conversation, or give the other model a short history of its own."
	case AccountChanged:
		return "Use one account for all calls of a conversation. Keys of one organization share a cache."
	case MarkMissing:
		return "Mark the end of the system prompt and the newest message with cache_control, or a cache point."
	case MarkMoved:
		return "Mark the newest message in every call, and keep the marks of the tools and the system prompt."
	case BeyondLookback:
		return "Add a mark between, so that no two marks are further apart than the provider looks back."
	case RoutingMissing:
		return "Set prompt_cache_key to the same value in all calls that share a prefix, such as the id of the conversation."
	case Varies:
		return "Move what differs behind what all conversations share: to the end of the system prompt, or into the first message of the user."
	}
	return ""
}
