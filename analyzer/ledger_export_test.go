package analyzer

import "github.com/llmtap/llmtap/analyzer/ledger"

// BoundLedger replaces a's ledger by an empty one of at most n entries.
func BoundLedger(a *Analyzer, n int) { a.memory.Ledger = ledger.New(100_000 / n) }

// LedgerLen returns the number of entries in a's ledger.
func LedgerLen(a *Analyzer) int { return a.memory.Len() }
