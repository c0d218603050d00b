package analyzer

// ForgetRequests makes a know nothing of requests, now and later: each is scanned whole.
func (a *Analyzer) ForgetRequests() {
	a.memos = newMemos(0, 0)
}

// Memos is how many conversations a knows requests of, and about how many bytes that takes.
func (a *Analyzer) Memos() (n, bytes int) { return a.memos.queue.Len(), a.memos.bytes }
