package promptcache

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestChanged(t *testing.T) {
	f := func(before, after, want string) {
		t.Helper()
		quote := func(s string) string { return string(must.Get(json.Marshal(s))(t)) }
		for _, form := range []string{
			`$`, `[{"type":"text","text":$}]`, `[{"type": "text", "text": $, "cache_control": {"type": "ephemeral"}}]`, `{"role":"system","content":$}`,
		} {
			was, is := strings.Replace(form, "$", quote(before), 1), strings.Replace(form, "$", quote(after), 1)
			at, detail := Changed([]byte(was), []byte(is))
			if detail != want || !strings.HasPrefix(was, is[:max(at, 0)]) || (at < 0) != (before == after) {
				t.Errorf("%s\n%s\n%q from %d on, want %q", was, is, detail, at, want)
			}
			_, back := Changed([]byte(is), []byte(was))
			must.Equal(t, back, want, "%s\n%s\nin the other direction", is, was)
		}
	}
	const rules = "You are a careful assistant of Acme Logistics.\nAnswer in one paragraph. Never promise a refund.\n"
	same := func(text string) { t.Helper(); f(text, text, "") }
	same(rules)

	// Times.
	f("Current time: 2026-11-28T19:12:16Z\n"+rules, "Current time: 2026-11-28T19:13:02Z\n"+rules, DetailTime)
	f(rules+"Now: 2026-11-28 19:12:16.123456", rules+"Now: 2026-11-28 19:12:17.001", DetailTime)
	f(rules+"Today is Saturday, November 28, 2026, 7:12 PM.", rules+"Today is Saturday, November 28, 2026, 7:13 PM.", DetailTime)
	f(rules+"It is 9:59 AM in Berlin.", rules+"It is 10:00 AM in Berlin.", DetailTime)
	f("The time is 19:12. "+rules, "The time is 09:05. "+rules, DetailTime)
	f("Time:19:12\n"+rules, "Time:19:14\n"+rules, DetailTime)
	f(rules+"Generated at Sat Nov 28 19:12:16 2026", rules+"Generated at Sat Nov 28 19:12:21 2026", DetailTime)
	f(rules+"Date: Sat, 28 Nov 2026 19:12:16 GMT", rules+"Date: Sun, 29 Nov 2026 00:01:10 GMT", DetailTime)
	f("It is 11 PM. "+rules, "It is 12 AM. "+rules, DetailTime)
	f(`{"now": 1764357136, "rules": "be brief"}`, `{"now": 1764357201, "rules": "be brief"}`, DetailTime)
	f("ts=1764357136123 "+rules, "ts=1764357140001 "+rules, DetailTime)
	f("timestamp: 1764357136.5512 "+rules, "timestamp: 1764357137.02 "+rules, DetailTime)
	f("Current date and time: 2026-11-28 23:59:58\n"+rules, "Current date and time: 2026-11-29 00:00:04\n"+rules, DetailTime)
	f("当前时间：2026年11月28日 19:12\n请简短回答。", "当前时间：2026年11月28日 19:15\n请简短回答。", DetailTime)
	f("run at 20261128191216: "+rules, "run at 20261128191416: "+rules, DetailTime)
	f(rules+"<env>\nToday's date: 2026-11-28\nTime: 19:12\n</env>", rules+"<env>\nToday's date: 2026-11-29\nTime: 08:30\n</env>", DetailTime)
	// The words before it say that it is the time; what else changes is another matter.
	f("Current time: 19:12:16\nContext: the order is late.", "Current time: 19:14:20\nContext: the parcel was returned to the sender.", DetailTime)
	// Two documents that contain times.
	f("Minutes: 10:30 John opens the meeting.", "Minutes: 11:45 Anne closes the meeting early.", "")

	// Dates.
	f("Today is 2026-11-28.\n"+rules, "Today is 2026-11-29.\n"+rules, DetailDate)
	f("Current date: November 28, 2026. "+rules, "Current date: November 29, 2026. "+rules, DetailDate)
	f("Current date: November 30, 2026. "+rules, "Current date: December 1, 2026. "+rules, DetailDate)
	f("Today is Saturday, 28 November 2026. "+rules, "Today is Sunday, 29 November 2026. "+rules, DetailDate)
	f(rules+"Today is Friday.", rules+"Today is Saturday.", DetailDate)
	f("Date: 28/11/2026. "+rules, "Date: 29/11/2026. "+rules, DetailDate)
	f("Datum: 28.11.2026. "+rules, "Datum: 01.12.2026. "+rules, DetailDate)
	f("as of 2026-11-28T00:00:00Z: "+rules, "as of 2026-11-29T00:00:00Z: "+rules, DetailDate)
	f("partition=20261128 "+rules, "partition=20261129 "+rules, DetailDate)
	f("今天是2026年11月28日。请简短回答。", "今天是2026年11月29日。请简短回答。", DetailDate)
	f("Today is Nov 28th, 2026. "+rules, "Today is Nov 29th, 2026. "+rules, DetailDate)

	// Random ids.
	f("Session 550e8400-e29b-41d4-a716-446655440000\n"+rules, "Session 6ba7b810-9dad-11d1-80b4-00c04fd430c8\n"+rules, DetailUUID)
	f(rules+"request_id=5f2b8c1d9e3a4b6c8d7e6f5a4b3c2d1e", rules+"request_id=9a1c8c1d9e3a4b6c8d7e6f5a4b3c2d00", DetailUUID)
	f("trace 01JDSZ8VQ4T8W3K6M5N7P9R2XA: "+rules, "trace 01JDSZ9BQ4T8W3K6M5N7P9R2XC: "+rules, DetailUUID)
	f("conversation: conv_8f3a9c2b71 "+rules, "conversation: conv_1b7d0e4a92 "+rules, DetailUUID)
	f(`{"id":"550e8400-e29b-41d4-a716-446655440000","at":"2026-11-28T19:12:16Z"}`, `{"id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","at":"2026-11-28T19:14:00Z"}`, DetailUUID)
	f(rules+"Build 5f2b8c1d9e3a4b6c8d7e6f5a4b3c2d1e", rules+"Build 9a1c8c1d9e3a4b6c8d7e6f5a4b3c2d00", "")
	f(rules+"See call-center-guide.", rules+"See call-agent-guide.", "")

	// Counters.
	f(rules+"This is turn 3 of at most 10.", rules+"This is turn 4 of at most 10.", DetailCounter)
	f(rules+"You have 9,500 tokens left.", rules+"You have 8,210 tokens left.", DetailCounter)
	f("[request #99] "+rules, "[request #100] "+rules, DetailCounter)
	f(rules+"Attempt: 1", rules+"Attempt: 12", DetailCounter)
	f(rules+"Budget spent so far: $0.0123", rules+"Budget spent so far: $0.0456", DetailCounter)
	f("(7) "+rules, "(8) "+rules, "")
	f(rules+"Say 1 and nothing else.", rules+"Say 2 and nothing else.", "")
	f(rules+"Answer in 3 steps.", rules+"Answer in 4 steps.", "")
	f(rules+"Answer in 3 steps, with 200 words.", rules+"Answer in 3 steps, with 350 words.", "")
	f(rules+"Step 2, 14 messages so far.", rules+"Step 3, 18 messages so far.", DetailCounter)
	f("Answer in 3 sentences. Context: the order is late.", "Answer in 4 sentences. Context: nothing.", "")
	f(rules+"Quote at most 200 words.", rules+"Quote at most 350 words.", "")
	f("Use API version 1.2.3.", "Use API version 1.2.4.", "")
	f("Connect to localhost:8080 first.", "Connect to localhost:8081 first.", "")
	f("Connect to 10.0.0.12 first.", "Connect to 10.0.0.13 first.", "")
	f("You run on gpt-4 now.", "You run on gpt-5 now.", "")
	f("temperature 21.5", "temperature 22.5", "")

	// The order of keys.
	f(rules+`Profile: {"plan":"gold","region":"EU","seats":4}`, rules+`Profile: {"seats":4,"plan":"gold","region":"EU"}`, DetailKeyOrder)
	f(rules+`{"a": {"x": 1, "y": [1, 2]}, "b": "{"}`, rules+`{"a": {"y": [1, 2], "x": 1}, "b": "{"}`, DetailKeyOrder)
	f(`[{"b":1,"a":2},{"b":3,"a":4}]`, `[{"a":2,"b":1},{"a":4,"b":3}]`, DetailKeyOrder)
	f("```json\n{\n  \"b\": 1,\n  \"a\": 2\n}\n```", "```json\n{\n  \"a\": 2,\n  \"b\": 1\n}\n```", DetailKeyOrder)
	f(rules+`{"plan":"gold","region":"EU"}`, rules+`{"region":"US","plan":"gold"}`, "")
	f(rules+`{"plan":"gold","region":"EU"}`, rules+`{"plan": "gold", "region": "EU"}`, "") // white space
	f(`{"tags":["a","b"]}`, `{"tags":["b","a"]}`, "")

	// What a user is.
	f("You are assisting Jane Doe from Initech. Be brief.", "You are assisting Bob from Globex. Be brief.", DetailUser)
	f(rules+"User: jane.doe@example.com", rules+"User: bob@example.org", DetailUser)
	f(rules+"Reply to jane.doe@example.com only.", rules+"Reply to bob@example.org only.", DetailUser)
	f("Customer id: 48213\n"+rules, "Customer id: 48214\n"+rules, DetailUser)
	f("Account number: 1764357136\n"+rules, "Account number: 1764357999\n"+rules, DetailUser)
	f(`{"user":{"name":"Ann","plan":"gold"}}`, `{"user":{"name":"Robert","plan":"gold"}}`, DetailUser)
	f("<user_name>Ann</user_name>\n"+rules, "<user_name>Robert</user_name>\n"+rules, DetailUser)
	f("user_id: 550e8400-e29b-41d4-a716-446655440000\n"+rules, "user_id: 6ba7b810-9dad-11d1-80b4-00c04fd430c8\n"+rules, DetailUser)
	f("The customer's name is Ann.\nThe customer's email is ann@example.com.", "The customer's name is Robert.\nThe customer's email is rob@example.com.", DetailUser)
	f(rules+"You speak with Ann Lee <ann.lee@example.com>.", rules+"You speak with Bob <bob@example.org>.", DetailUser)
	f("Customer: Ann Lee, ann.lee@example.com\n"+rules, "Customer: Bob, bob@example.org\n"+rules, DetailUser)
	f("The user's name is Ann Lee, the address is ann.lee@example.com.", "The user's name is Bob, the address is bob@example.org.", DetailUser)
	f("User: Hello, where is my parcel?", "User: Thanks, may I get a refund?", "")
	f("User question: where is my parcel?", "User question: may I get a refund?", "")
	f("Tell me a joke, pirate style", "What is the weather in Tokyo?", "")
	f("The user asks: where is it?", "The user asks: why so late?", "")

	// Nothing of these.
	f(rules, rules+"Never mention prices.", "")
	f(rules, strings.Replace(rules, "one paragraph", "two paragraphs", 1), "")
	f("You are a helpful agent.", "You are a terse agent.", "")
	f("", rules, "")
	f("Tools: search, read", "Tools: read, search", "")
}

func TestChangedMessage(t *testing.T) {
	// The role of a message says nothing about its text.
	_, detail := Changed([]byte(`{"role":"user","content":"Tell me a joke"}`), []byte(`{"role":"user","content":"Tell me another"}`))
	must.Equal(t, detail, "", "a changed text")
	// Keys of the message itself in another order.
	if at, detail := Changed([]byte(`{"role":"user","content":"a"}`), []byte(`{"content":"a","role":"user"}`)); at != 2 || detail != DetailKeyOrder {
		t.Errorf("%d, %q", at, detail)
	}
	// A text that is too long to look at.
	long := `"` + strings.Repeat("x", maxChanged)
	if at, detail := Changed([]byte(long+`1"`), []byte(long+`2"`)); at != len(long) || detail != "" {
		t.Errorf("%d, %q", at, detail)
	}
}

func FuzzChanged(f *testing.F) {
	f.Add([]byte(`"It is 19:12"`), []byte(`"It is 19:13"`))
	f.Add([]byte(`{"a":{"b":1,"c":2}}`), []byte(`{"a":{"c":2,"b":1}}`))
	f.Add([]byte(`User: ann@example.com 1`), []byte(`User: bob@example.com 2`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		at, detail := Changed(before, after)
		if (at < 0) != (string(before) == string(after)) || at > len(before) || at > len(after) || at < 0 && detail != "" {
			t.Errorf("%q, %q: %d, %q", before, after, at, detail)
		}
	})
}
