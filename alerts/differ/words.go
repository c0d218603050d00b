package differ

import (
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/ingest/quantity"
)

// Sentence says in which calls something happened, such as "only model a and region eu: 96 of 98 calls; 2 of 402 others". parts are
// the conditions of a cause in words, and in and all the numbers of its calls and of all. Numbers of a sample are about right.
func Sentence(parts []string, in, all Numbers, sample bool) string {
	if len(parts) == 0 || all.Actual == 0 {
		return ""
	}
	often := "more often"
	switch share := in.Actual / all.Actual; {
	case share >= 0.9:
		often = "only"
	case share >= 0.5:
		often = "mostly"
	}
	about := ""
	if sample {
		about = "about "
	}
	rest := all.Without(in)
	return fmt.Sprintf("%s %s: %s%s of %s calls; %s%s of %s others", often, strings.Join(parts, ", or "), about, quantity.Count(in.Actual), quantity.Count(in.Calls), about, quantity.Count(rest.Actual), quantity.Count(rest.Calls))
}
