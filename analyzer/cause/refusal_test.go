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
