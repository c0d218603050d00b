package otlp

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// nestedProto returns a payload with lists nested n deep, built from the inside out in reverse.
func nestedProto(n int) []byte {
	var rev []byte
	wrap := func(field protowire.Number) {
		head := protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), uint64(len(rev)))
		slices.Reverse(head)
		rev = append(rev, head...)
	}
	for range n {
		wrap(1) // ArrayValue.values
		wrap(5) // AnyValue.array_value
	}
	for _, field := range []protowire.Number{2, 1, 1, 1} { // KeyValue.value, Resource.attributes, ResourceSpans.resource, resource_spans
		wrap(field)
	}
	slices.Reverse(rev)
	return rev
}

func nestedJSON(n int) []byte {
	return []byte(`{"resourceSpans":[{"resource":{"attributes":[{"key":"a \" [","value":` + strings.Repeat(`{"arrayValue":{"values":[`, n) + `{}` +
		strings.Repeat(`]}}`, n) + `}]}}]}`)
}

// Payloads with deep nesting are refused, because decoding them overflows the stack.
func TestNesting(t *testing.T) {
	_, h, _ := newReceiver(t, new(store), 1<<30)
	f := func(media string, body []byte, want int) {
		t.Helper()
		must.Equal(t, post(t, h, tracesPath, media, "", body).Code, want, "%s of %d bytes", media, len(body))
	}
	f("application/x-protobuf", nestedProto(20), 200)
	f("application/x-protobuf", nestedProto(2_000_000), 400)
	f("application/json", nestedJSON(20), 200)
	f("application/json", nestedJSON(1_000_000), 400)

	deep := nestedProto(10_000)
	call := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(deep))), deep...)
	must.Equal(t, post(t, h, tracesMethod, mediaGRPC, "", call).Header().Get("Grpc-Status"), strconv.Itoa(int(codes.InvalidArgument)), "status of gRPC")
}
