package cause

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
)

// files contains the causes, the lexicon, and the wordings. In all of them, a line of the first column names an entry and the
// indented lines below describe it; "#" starts a comment.
//
//go:embed wordings/*.txt
var files embed.FS

// wordings contains the tables in matching order; the table of the target is always matched first.
type wordings struct {
	families []*table
	common   *table
	concepts []concept
	lexicon  *index
}

var all = mustRead()

func mustRead() *wordings {
	w := &wordings{concepts: mustParse("lexicon", parseLexicon)}
	w.lexicon = newIndex(w.concepts)
	read := func(name, family string) *table {
		return &table{family: family, rows: mustParse(name, func(s string) ([]row, error) { return parseRows(s, name == concepts, w.lexicon) })}
	}
	w.families = append(w.families, read("misleading", "hosts"))
	for _, family := range []string{"openai", "deepseek", "qwen", "gemini", "anthropic", "mistral", "hosts"} {
		w.families = append(w.families, read(family, family))
	}
	w.common = read(concepts, concepts)
	return w
}

// mustParse parses a file of this package.
func mustParse[T any](name string, parse func(string) (T, error)) T {
	b, err := files.ReadFile("wordings/" + name + ".txt")
	if err == nil {
		var parsed T
		if parsed, err = parse(string(b)); err == nil {
			return parsed
		}
	}
	panic(fmt.Sprintf("BUG: read wordings %s: %v", name, err))
}

// parseLexicon reads concepts: a name, then lines of phrases separated by "|".
func parseLexicon(s string) ([]concept, error) {
	var cs []concept
	err := eachLine(s, func(line string, indented bool) error {
		if !indented {
			cs = append(cs, concept{name: line})
			return nil
		}
		c := &cs[len(cs)-1]
		for p := range strings.SplitSeq(line, "|") {
			p, err := unquote(strings.TrimSpace(p))
			if err != nil || len(strings.TrimRight(p, "$#")) < shortGram {
				return fmt.Errorf("concept %s: phrase %q is shorter than %d bytes, or its quotes are wrong", c.name, p, shortGram)
			}
			c.phrases = append(c.phrases, p)
		}
		return nil
	})
	return cs, err
}

// parseRows reads rows: words, or a condition on the concepts of x, then a line for each field of the row.
func parseRows(s string, conditions bool, x *index) ([]row, error) {
	var rows []row
	err := eachLine(s, func(line string, indented bool) error {
		if !indented {
			words, err := unquote(line)
			if err == nil && conditions {
				rows = append(rows, row{when: words})
				rows[len(rows)-1].condition, err = newCondition(x, words)
			} else {
				rows = append(rows, row{words: words})
			}
			return err
		}
		return rows[len(rows)-1].set(line)
	})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].cause == "" || rows[i].source == "" {
			return nil, fmt.Errorf("%q has no cause or no source", rows[i].words+rows[i].when)
		}
		rows[i].complete()
	}
	return rows, nil
}

// set sets the field of r that a line such as "cause: auth" describes.
func (r *row) set(line string) error {
	key, value, _ := strings.Cut(line, ": ")
	var err error
	switch key {
	case "cause":
		r.cause = value
	case "rule":
		r.rule = value
	case "open":
		r.openRules = strings.Fields(value)
	case "also":
		r.agreeRules = strings.Fields(value)
	case "only":
		r.only = value
	case "status":
		r.status, err = strconv.Atoi(value)
	case "weak":
		r.weak = true
	case "guess":
		r.guess = true
	case "source":
		r.source = value
	default:
		return fmt.Errorf("unknown field %q", line)
	}
	return err
}

// phrasesOf returns the normal forms of phrases that are joined by " … ".
func phrasesOf(words string) (phrases [][]byte) {
	for phrase := range strings.SplitSeq(words, " … ") {
		phrases = append(phrases, normalise(nil, []byte(phrase)))
	}
	return phrases
}

// complete derives what matching needs from the fields of r.
func (r *row) complete() {
	if r.when == "" {
		r.phrases = phrasesOf(r.words)
		for _, p := range r.phrases {
			r.grams = append(r.grams, gramsOf(p)...)
		}
	}
	class := registry[r.cause].class
	r.access, r.aboutRequest = class == "access", aboutRequest[class]
	r.limit = r.cause == "billing" || r.cause == "rate_limit" || r.cause == "content_policy"
	if r.rule != "" {
		r.agreeRules = append(r.agreeRules, r.rule)
	}
}

// eachLine calls f for each line that is neither empty nor a comment, without its indentation.
func eachLine(s string, f func(line string, indented bool) error) error {
	n, entries := 0, 0
	for line := range strings.SplitSeq(s, "\n") {
		n++
		text, indented := strings.CutPrefix(line, "\t")
		if text == "" || text[0] == '#' && !indented {
			continue
		}
		if !indented {
			entries++
		}
		if entries == 0 {
			return fmt.Errorf("line %d: indented line without an entry", n)
		}
		if err := f(text, indented); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// unquote removes the quotes of a wording that starts or ends in a space. No normal form contains quotes.
func unquote(s string) (string, error) {
	if strings.HasPrefix(s, `"`) {
		return strconv.Unquote(s)
	}
	return s, nil
}
