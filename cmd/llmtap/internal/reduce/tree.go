package reduce

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// lists are the members of a message whose elements are parts or calls.
var lists = []string{"content", "parts", "tool_calls"}

// callIDs returns the ids of the calls that a message contains or answers; in Gemini, which has none, the names of the functions.
func callIDs(message any) (ids []string) {
	m, _ := message.(map[string]any)
	if id := callID(m); id != "" {
		ids = append(ids, id)
	}
	for _, list := range lists {
		elements, _ := m[list].([]any)
		for _, e := range elements {
			part, _ := e.(map[string]any)
			if id := callID(part); id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// callID returns the id of the call that a part, or a message as a whole, is or answers; "" if it is neither.
func callID(m map[string]any) string {
	for _, key := range []string{"tool_call_id", "call_id", "tool_use_id"} {
		if id := text(m[key]); id != "" {
			return id
		}
	}
	for _, key := range []string{"toolUse", "toolResult"} {
		if inner, ok := m[key].(map[string]any); ok {
			return text(inner["toolUseId"])
		}
	}
	for _, key := range []string{"functionCall", "functionResponse"} {
		if inner, ok := m[key].(map[string]any); ok {
			return text(inner["name"])
		}
	}
	if t := text(m["type"]); t == "tool_use" || t == "function_call" || m["function"] != nil || m["custom"] != nil {
		return text(m["id"])
	}
	return ""
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// without returns messages without those for which drop returns true, and without such parts and calls of the others. A message
// that loses its last part is dropped.
func without(messages []any, drop func(element map[string]any) bool) []any {
	kept := make([]any, 0, len(messages))
	for _, message := range messages {
		m, ok := message.(map[string]any)
		if !ok {
			kept = append(kept, message)
			continue
		}
		if drop(m) {
			continue
		}
		m, empty := maps.Clone(m), false
		for _, list := range lists {
			elements, ok := m[list].([]any)
			if !ok || len(elements) == 0 {
				continue
			}
			rest := slices.DeleteFunc(slices.Clone(elements), func(e any) bool {
				part, ok := e.(map[string]any)
				return ok && drop(part)
			})
			if m[list] = rest; len(rest) > 0 {
				continue
			}
			if list == "tool_calls" {
				delete(m, list)
			} else {
				empty = true
			}
		}
		if !empty {
			kept = append(kept, m)
		}
	}
	return kept
}

// protocol are the members whose strings are names and ids rather than texts.
var protocol = map[string]bool{
	"role": true, "type": true, "id": true, "name": true, "call_id": true, "tool_call_id": true, "tool_use_id": true, "toolUseId": true,
	"status": true, "format": true, "media_type": true, "mimeType": true, "model": true, "tools": true,
}

// maxText is the maximum length of a short text in characters.
const maxText = 32

// long yields the long texts in v. Strings that contain a JSON object, such as arguments, are searched inside.
func long(v any, yield func(string)) {
	switch v := v.(type) {
	case string:
		if inner, ok := object(v); ok {
			long(inner, yield)
		} else if utf8.RuneCountInString(v) > maxText {
			yield(v)
		}
	case []any:
		for _, e := range v {
			long(e, yield)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !protocol[key] {
				long(v[key], yield)
			}
		}
	}
}

// shorten returns v with the chosen long texts shortened.
func shorten(v any, chosen map[string]bool) any {
	switch v := v.(type) {
	case string:
		if inner, ok := object(v); ok {
			return string(Encode(shorten(inner, chosen)))
		}
		if chosen[v] {
			return string([]rune(v)[:maxText-1]) + "…"
		}
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = shorten(e, chosen)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, e := range v {
			if all[key] = e; !protocol[key] {
				all[key] = shorten(e, chosen)
			}
		}
		return all
	}
	return v
}

// object decodes a string that contains a JSON object.
func object(s string) (m map[string]any, ok bool) {
	if !strings.HasPrefix(s, "{") || !json.Valid([]byte(s)) {
		return nil, false
	}
	m, err := Decode[map[string]any]([]byte(s))
	return m, err == nil
}
