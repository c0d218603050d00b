// Package price knows what tokens cost: the price table of the configuration, and public list prices as its default.
package price

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Price is the price of a model in USD per million tokens, which is also the price of a token in microdollars.
type Price struct {
	Provider    string  `yaml:"provider"` // value of the column provider; empty for any provider
	Model       string  `yaml:"model"`    // name of the model; * matches any text
	Input       float64 `yaml:"input"`
	CachedInput float64 `yaml:"cached_input"`
	Output      float64 `yaml:"output"`
}

// Microdollars returns the cost of a call with these tokens; cached are those of input that the provider read from its cache. The
// statements of dashboards/queries compute the same.
func (p *Price) Microdollars(input, cached, output int64) float64 {
	return float64(input-cached)*p.Input + float64(cached)*p.CachedInput + float64(output)*p.Output
}

// Table is a price table. The first row that matches a model applies; a model without a matching row has an unknown cost.
type Table []Price

// Matches reports whether name is as the pattern, in which * matches any text.
func Matches(pattern, name string) bool {
	first, rest, ok := strings.Cut(pattern, "*")
	if !ok {
		return pattern == name
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	name = name[len(first):]
	for {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(part):], next
	}
}

// maxKnown bounds the models that a Lookup remembers.
const maxKnown = 4096

// A Lookup finds prices in a Table that does not change, and remembers them. It is not safe for concurrent use.
type Lookup struct {
	table Table
	known map[[2]string]*Price
}

// NewLookup returns a Lookup of t.
func NewLookup(t Table) *Lookup { return &Lookup{t, map[[2]string]*Price{}} }

// Of returns the price of a model, or nil if it is unknown.
func (l *Lookup) Of(provider, model string) *Price {
	key := [2]string{provider, model}
	p, ok := l.known[key]
	if !ok {
		if len(l.known) >= maxKnown {
			clear(l.known)
		}
		row := func(r Price) bool { return (r.Provider == "" || r.Provider == provider) && Matches(r.Model, model) }
		if i := slices.IndexFunc(l.table, row); i >= 0 {
			p = &l.table[i]
		}
		l.known[[2]string{strings.Clone(provider), strings.Clone(model)}] = p
	}
	return p
}

// Validate returns an error for every invalid value, joined.
func (t Table) Validate() error {
	var errs []error
	for i, row := range t {
		if row.Model == "" {
			errs = append(errs, fmt.Errorf("prices[%d].model: is empty; * matches any model", i))
		}
		check := func(key string, usd float64) {
			if !(usd >= 0) || math.IsInf(usd, 0) { // also rejects NaN
				errs = append(errs, fmt.Errorf("prices[%d].%s: %v is not a price", i, key, usd))
			}
		}
		check("input", row.Input)
		check("cached_input", row.CachedInput)
		check("output", row.Output)
	}
	return errors.Join(errs...)
}

var likePattern = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`)

// Bound returns t as the value of the parameter {prices:String} of statements: a JSON array of rows [provider, LIKE pattern, input,
// cached input, output].
func (t Table) Bound() string {
	rows := make([][5]any, len(t))
	for i, r := range t {
		rows[i] = [5]any{r.Provider, likePattern.Replace(r.Model), r.Input, r.CachedInput, r.Output}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return "[]" // only for a table that Validate rejects
	}
	return string(text)
}
