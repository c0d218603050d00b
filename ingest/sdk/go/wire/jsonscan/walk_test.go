package jsonscan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMembers(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		var b strings.Builder
		for key, v := range Members([]byte(text)) {
			b.WriteString(string(key) + "=" + string(v) + ";")
		}
		must.Equal(t, b.String(), want, "%s", text)
	}
	f(` {"a" : "x,}" , "b\u0021":[{"c":1}] ,"d":-1.5e3,"e":{}, "f":null}`, `a="x,}";b!=[{"c":1}];d=-1.5e3;e={};f=null;`)
	f(`{}`, ``)
	f(`["a"]`, ``)
	f(``, ``)
	// What is no object yields the members before the error.
	f(`{"a":1,"b":"open`, `a=1;`)
	f(`{"a":1,"b":[1`, `a=1;`)
	f(`{"a":1,"b":}`, `a=1;`)
	f(`{"a":1,"b"}`, `a=1;`)
	f(`{"a":1 "b":2}`, `a=1;`)
	f(`{"a":1,`, `a=1;`)
}

func TestElements(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		var b strings.Builder
		for i, v := range Elements([]byte(text)) {
			fmt.Fprintf(&b, "%d %s;", i, v)
		}
		must.Equal(t, b.String(), want, "%s", text)
	}
	f(` [ "a,]" ,{"b":[1,2]},[] , -1.5]`, `3 "a,]";10 {"b":[1,2]};22 [];27 -1.5;`)
	f(`[]`, ``)
	f(`{"a":1}`, ``)
	f(`[1,"open`, `1 1;3 "open;`)
	f(`[1,,2]`, `1 1;`)
	f(`[1 2]`, `1 1;`)
}
