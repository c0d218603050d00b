package analyzer

// BoundLedger makes a's ledger forget entries beyond n.
func BoundLedger(a *Analyzer, n int) { a.ledger.max = n }

// LedgerLen is how many entries a's ledger holds, and how many versions of stages it can find.
func LedgerLen(a *Analyzer) (entries, versions int) {
	for _, list := range a.ledger.versions {
		versions += len(list)
	}
	return len(a.ledger.entries), versions
}

// Join is what a reader makes of its own entry and that of another cut.
func Join(own, foreign LedgerEntry) LedgerEntry {
	l := newLedger(1)
	own, foreign = own.clone(), foreign.clone()
	foreign.foreign()
	l.add(&own, true)
	l.add(&foreign, false)
	return l.entries[own.LedgerKey].clone()
}
