package rules

import "github.com/llmtap/llmtap/analyzer/check"

// named is the type of a model name, from the target or the body. Gateways and clouds add prefixes and suffixes to model names:
// us.anthropic.claude-sonnet-4-5-20250929-v1:0, google/gemini-3-pro-preview, Kimi-K2.5.
type named interface{ ~string | ~[]byte }

// modelIs reports whether the name of the requested model contains word, ignoring case. word must be in lower case.
func modelIs(p *check.Pass, word string) bool {
	if p.Target.Model != "" {
		return after(p.Target.Model, word) >= 0
	}
	return after(p.Request.Model, word) >= 0
}

// versionOf returns the version that follows family in the name of the requested model.
func versionOf(p *check.Pass, family string) (v version, ok bool) {
	if p.Target.Model != "" {
		return versionAfter(p.Target.Model, family)
	}
	return versionAfter(p.Request.Model, family)
}

// after returns the index after word in model, or -1 if model does not contain word, ignoring case. word must be in lower
// case.
func after[T named](model T, word string) int {
	for i := 0; i+len(word) <= len(model); i++ {
		j := 0
		for j < len(word) && lower(model[i+j]) == word[j] {
			j++
		}
		if j == len(word) {
			return i + j
		}
	}
	return -1
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// version is the version number in a model name: 4.6 in claude-opus-4-6.
type version struct{ major, minor int }

func (v version) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

// versionAfter parses a version such as 3, 3.1 or 4-6 directly after family. Numbers of more than two digits are dates,
// not versions.
func versionAfter[T named](model T, family string) (v version, ok bool) {
	i := after(model, family)
	if i < 0 {
		return v, false
	}
	n := 0
	if v.major, n = digits(model, i); n == 0 {
		return version{}, false
	}
	if i += n; i < len(model) && (model[i] == '.' || model[i] == '-') {
		v.minor, _ = digits(model, i+1)
	}
	return v, true
}

// digits parses a number of one or two digits at model[i:] and returns its length n; n is 0 if there is no number or a longer
// one.
func digits[T named](model T, i int) (number, n int) {
	for i+n < len(model) && model[i+n] >= '0' && model[i+n] <= '9' {
		if n++; n > 2 {
			return 0, 0
		}
		number = 10*number + int(model[i+n-1]-'0')
	}
	return number, n
}
