// Package nearest finds the known name that an unknown name was probably meant to be: a configuration key, a flag, a rule, a
// member of an event.
package nearest

// Name returns the element of names with the smallest edit distance to name, or "" if more than a third of name
// would have to change.
func Name(name string, names []string) string {
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, n := range names {
		if d := editDistance(name, n); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	return best
}

// editDistance returns the Levenshtein distance of a and b in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
