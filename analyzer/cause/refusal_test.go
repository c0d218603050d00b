package cause

import "testing"

// TestLogKeepsErrors: an error text contains a refusal, so it has the same cause if it may be a part of a log. A few texts are
// so short that only their status shows that they are errors.
func TestLogKeepsErrors(t *testing.T) {
	all, same := 0, 0
	check := func(status int, text string) {
		want := Classify(Input{Status: status, Text: []byte(text)})
		if want.StatedBy == "" || want.StatedBy == "status" {
			return
		}
		all++
		if got := Classify(Input{Status: status, Text: []byte(text), Log: true}); got.ID == want.ID {
			same++
		} else {
			t.Logf("%s instead of %s: %s", got.ID, want.ID, text)
		}
	}
	for i, s := range sentences(t, "testdata/unseen.jsonl") {
		check(s.Status, s.Text)
		check(s.Status, wrap(1+i%7, s.Text, s.Status))
	}
	t.Logf("%d of %d texts have the same cause", same, all)
	if same*100 < all*99 {
		t.Error("a log loses its errors")
	}
}

// A text about a model, a plan or an account is no fault of the messages, although it names calls, roles or results.
func TestNoFaultOfMessages(t *testing.T) {
	for _, text := range []string{
		"Function calling is only supported on paid plans.",
		"Tool use is only supported for Claude 3 and later models.",
		"Tool calls are only allowed for verified organizations.",
		"Your user role does not allow this operation.",
		"Requests must come from an allowed IP address.",
		"The request did not complete in 600 seconds.",
		"Text input is only supported on the Pro tier.",
		"Parallel tool calls are not supported by this deployment.",
		"moderation requests are not allowed on this key",
		"The requested tool output could not be stored, please try again later.",
		"Too many tool calls per minute, please try again in 20 seconds.",
		"https://example.com/model/functions returned 404",
	} {
		if got := Classify(Input{Status: 400, Text: []byte(text)}); ofHistory[got.Class] {
			t.Errorf("%s: %s by %q", text, got.ID, got.StatedBy)
		}
	}
}
