package analyzer

// ForgetRequests makes a forget all requests, now and later: each is scanned whole.
func (a *Analyzer) ForgetRequests() { a.bodies.memos = newMemos(0, 0) }

// Memos returns how many conversations a has memos of, and their estimated size.
func (a *Analyzer) Memos() (n, bytes int) { return a.bodies.memos.queue.Len(), a.bodies.memos.bytes }

// RememberSmall makes a remember requests of any size.
func (a *Analyzer) RememberSmall() { a.bodies.memos.from = 0 }
