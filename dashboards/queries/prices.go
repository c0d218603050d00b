package queries

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// A Price is the price of a model in USD per million tokens.
type Price struct {
	Provider    string  `yaml:"provider"` // value of the column provider; empty for any provider
	Model       string  `yaml:"model"`    // name of the model; * matches any text
	Input       float64 `yaml:"input"`
	CachedInput float64 `yaml:"cached_input"`
	Output      float64 `yaml:"output"`
}

// Prices is a price table. The first row that matches a model applies; a model without a matching row has an unknown cost.
type Prices []Price

// PricesDate is the date of the prices in DefaultPrices.
const PricesDate = "2026-04-30"

// DefaultPrices returns some public list prices as of PricesDate, for prompts of usual length. Providers change their
// prices, and customers may have individual prices. Charges for cache writes are not included.
func DefaultPrices() Prices {
	return Prices{
		{"openai", "gpt-5-mini*", 0.25, 0.025, 2},
		{"openai", "gpt-5", 1.25, 0.125, 10},
		{"openai", "gpt-5-2025*", 1.25, 0.125, 10},
		{"openai", "gpt-4.1-mini*", 0.40, 0.10, 1.60},
		{"openai", "gpt-4.1", 2, 0.50, 8},
		{"openai", "gpt-4o-mini*", 0.15, 0.075, 0.60},
		{"openai", "gpt-4o", 2.50, 1.25, 10},
		{"anthropic", "claude-opus-4-5*", 5, 0.50, 25},
		{"anthropic", "claude-sonnet-4*", 3, 0.30, 15},
		{"anthropic", "claude-haiku-4-5*", 1, 0.10, 5},
		{"gcp.gemini", "gemini-2.5-pro", 1.25, 0.125, 10},
		{"gcp.gemini", "gemini-2.5-flash", 0.30, 0.03, 2.50},
		{"deepseek", "deepseek-v4-flash*", 0.14, 0.0028, 0.28},
	}
}

// Validate returns an error for every invalid value, joined.
func (p Prices) Validate() error {
	var errs []error
	for i, row := range p {
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

// Bound returns p as the value of the parameter {prices:String}: a JSON array of rows [provider, LIKE pattern, input,
// cached input, output].
func (p Prices) Bound() string {
	rows := make([][5]any, len(p))
	for i, r := range p {
		rows[i] = [5]any{r.Provider, likePattern.Replace(r.Model), r.Input, r.CachedInput, r.Output}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return "[]" // only for a table that Validate rejects
	}
	return string(text)
}
