package differ

import (
	"fmt"
	"strconv"
	"strings"
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
	return fmt.Sprintf("%s %s: %s%s of %s calls; %s%s of %s others", often, strings.Join(parts, ", or "), about, whole(in.Actual), whole(in.Calls), about, whole(rest.Actual), whole(rest.Calls))
}

// whole formats a number with commas between thousands.
func whole(x float64) string {
	s := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
