package promptcache

import "strings"

// words are the reasons in words.
var words = map[string]string{
	ToolsChanged:     "the tools changed",
	ToolsReordered:   "the tools are in another order",
	SystemChanged:    "the system prompt changed",
	MessageEdited:    "an old message changed",
	HistoryCompacted: "the history was compacted",
	ParameterChanged: "a parameter changed",
	ModelSwitched:    "the model changed",
	AccountChanged:   "the account changed",
	MarkMissing:      "nothing is marked for the cache",
	MarkMoved:        "the marks leave out what was marked before",
	BeyondLookback:   "the last cached mark is too many blocks back",
	TooShort:         "the prompt is too short for the cache",
	Idle:             "the cache had expired",
	Parallel:         "other calls were still writing the cache",
	RoutingMissing:   "without prompt_cache_key, calls go to different machines",
	Varies:           "each conversation begins differently",
	Evicted:          "the provider no longer had it",
	VersionChanged:   "another version continued the conversation",
}

// Words returns a reason with its element and its detail in words, such as "the system prompt changed (time)".
func Words(reason, element, detail string) string {
	text, ok := words[reason]
	if !ok {
		text = reason
	}
	switch {
	case element == "" || element == "system" || element == "tools" || element == "messages" || strings.Contains(text, element):
	case reason == ParameterChanged:
		text = "the parameter " + element + " changed"
	default:
		text += ", " + element
	}
	if detail != "" && !strings.Contains(text, detail) {
		text += " (" + detail + ")"
	}
	return text
}

// Known reports whether reason is one of this package.
func Known(reason string) bool {
	_, ok := words[reason]
	return ok
}
