package silence

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"
)

const (
	maxMatchers = 20
	maxValue    = 1024 // bytes of a matcher's value
	maxName     = 128  // bytes of a matcher's label name
)

// A Matcher compares the value of one label. A missing label has the value "".
type Matcher struct {
	Name, Value string
	Regex       bool // Value is a regular expression, anchored at both ends
	Negative    bool // the alert matches if the value does not

	re *regexp.Regexp // nil unless Regex
}

// NewMatcher returns a valid matcher. op is =, !=, =~ or !~.
func NewMatcher(name, op, value string) (Matcher, error) {
	m := Matcher{Name: name, Value: value, Regex: strings.HasSuffix(op, "~"), Negative: strings.HasPrefix(op, "!")}
	switch {
	case op != "=" && op != "!=" && op != "=~" && op != "!~":
		return m, fmt.Errorf("%q is not =, !=, =~ or !~", op)
	case len(name) > maxName || !model.LegacyValidation.IsValidLabelName(name):
		return m, fmt.Errorf("%.50q is not a label name", name)
	case !utf8.ValidString(value):
		return m, fmt.Errorf("the value of %s is not UTF-8", name)
	case len(value) > maxValue:
		return m, fmt.Errorf("the value of %s is longer than %d bytes", name, maxValue)
	}
	return m, m.compile()
}

func (m *Matcher) compile() (err error) {
	m.re = nil
	if m.Regex {
		if m.re, err = regexp.Compile("^(?:" + m.Value + ")$"); err != nil {
			return fmt.Errorf("the value of %s is not a regular expression: %w", m.Name, err)
		}
	}
	return nil
}

// ParseMatcher parses a matcher such as service=checkout-agent or severity=~"warn.*". Quotes are optional.
func ParseMatcher(s string) (Matcher, error) {
	s = strings.TrimSpace(s)
	i := strings.IndexAny(s, "=!")
	if i < 0 {
		return Matcher{}, fmt.Errorf("%.100q is not a matcher, such as service=checkout-agent or severity=~\"warn.*\"", s)
	}
	name, rest := strings.TrimSpace(s[:i]), s[i:]
	op := rest[:1]
	if len(rest) > 1 && (rest[1] == '~' || op == "!" && rest[1] == '=') {
		op = rest[:2]
	}
	value := strings.TrimSpace(rest[len(op):])
	if strings.HasPrefix(value, `"`) {
		unquoted, err := strconv.Unquote(value)
		if err != nil {
			return Matcher{}, fmt.Errorf("%.100q: the quotes of the value are not balanced", s)
		}
		value = unquoted
	}
	m, err := NewMatcher(name, op, value)
	if err != nil {
		return m, fmt.Errorf("matcher %.100q: %w", s, err)
	}
	return m, nil
}

// Op returns =, !=, =~ or !~.
func (m *Matcher) Op() string {
	switch {
	case m.Regex && m.Negative:
		return "!~"
	case m.Regex:
		return "=~"
	case m.Negative:
		return "!="
	}
	return "="
}

// String returns the matcher as ParseMatcher accepts it, with quotes.
func (m Matcher) String() string { return m.Name + m.Op() + strconv.Quote(m.Value) }

// Matches reports whether a label of this value matches.
func (m *Matcher) Matches(value string) bool {
	if m.re != nil {
		return m.re.MatchString(value) != m.Negative
	}
	return (m.Value == value) != m.Negative
}

// matcherJSON is the JSON of a Matcher in Alertmanager's API.
type matcherJSON struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	IsRegex bool   `json:"isRegex"`
	IsEqual *bool  `json:"isEqual"` // absent: true
}

// MarshalJSON implements json.Marshaler.
func (m Matcher) MarshalJSON() ([]byte, error) {
	equal := !m.Negative
	return json.Marshal(matcherJSON{m.Name, m.Value, m.Regex, &equal})
}

// UnmarshalJSON implements json.Unmarshaler. It fails if the matcher is invalid.
func (m *Matcher) UnmarshalJSON(b []byte) error {
	var j matcherJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	op := Matcher{Regex: j.IsRegex, Negative: j.IsEqual != nil && !*j.IsEqual}
	var err error
	*m, err = NewMatcher(j.Name, op.Op(), j.Value)
	return err
}

// Matchers are matchers that must all match.
type Matchers []Matcher

// ParseMatchers parses a list of matchers, as ParseMatcher does.
func ParseMatchers(list []string) (Matchers, error) {
	var all Matchers
	for _, s := range list {
		m, err := ParseMatcher(s)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// Match reports whether the labels of an alert match all of ms. The label alertname is the name of its rule.
func (ms Matchers) Match(alertname string, labels map[string]string) bool {
	for i := range ms {
		value := labels[ms[i].Name]
		if ms[i].Name == model.AlertNameLabel {
			value = alertname
		}
		if !ms[i].Matches(value) {
			return false
		}
	}
	return true
}

// Validate returns an error if there are too many matchers, or if they match an alert without labels.
func (ms Matchers) Validate() error {
	switch {
	case len(ms) == 0:
		return errors.New("at least one matcher is required")
	case len(ms) > maxMatchers:
		return fmt.Errorf("%d matchers are more than %d", len(ms), maxMatchers)
	}
	for i := range ms {
		if !ms[i].Matches("") {
			return nil
		}
	}
	return errors.New("at least one matcher must not match the empty string, otherwise the silence would match every alert")
}

// String returns the matchers separated by spaces.
func (ms Matchers) String() string {
	var out []string
	for _, m := range ms {
		out = append(out, m.String())
	}
	return strings.Join(out, " ")
}
