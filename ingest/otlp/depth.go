package otlp

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxNesting is the maximum nesting of values in a payload. The decoders have none of their own: they recurse, and a payload
// of 14 MB that consists of nested lists overflows the stack, which ends the process.
const maxNesting = 128

var errNesting = errors.New("values are nested too deeply")

// A messageType is a type of message of OTLP on the way to a value.
type messageType int

const (
	typeRequest messageType = iota
	typeResourceItems
	typeResource
	typeScopeItems
	typeScope
	typeItem // span or log record
	typeEvent
	typeLink
	typePair
	typeValue
	typeList
	typePairs
)

// members contains the fields of each type that contain messages. Those of spans and log records are combined: a text that
// is read as a message has no depth.
var members = map[messageType]map[protowire.Number]messageType{
	typeRequest:       {1: typeResourceItems},
	typeResourceItems: {1: typeResource, 2: typeScopeItems},
	typeResource:      {1: typePair},
	typeScopeItems:    {1: typeScope, 2: typeItem},
	typeScope:         {3: typePair},
	typeItem:          {5: typeValue, 6: typePair, 9: typePair, 11: typeEvent, 13: typeLink},
	typeEvent:         {3: typePair},
	typeLink:          {4: typePair},
	typePair:          {2: typeValue},
	typeValue:         {5: typeList, 6: typePairs},
	typeList:          {1: typeValue},
	typePairs:         {1: typePair},
}

// tooDeep reports whether values in an encoded message are nested too deeply. It stops at what it cannot read.
func tooDeep(b []byte, typ messageType, depth int) bool {
	if depth > maxNesting {
		return true
	}
	for len(b) > 0 {
		field, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		if inner, ok := members[typ][field]; ok && wire == protowire.BytesType {
			value, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return false
			}
			if tooDeep(value, inner, depth+1) {
				return true
			}
			b = b[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(field, wire, b); n < 0 {
			return false
		}
		b = b[n:]
	}
	return false
}

// tooDeepJSON is tooDeep for JSON.
func tooDeepJSON(b []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > 3*maxNesting { // a level of a value has up to three brackets
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
