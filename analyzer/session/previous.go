package session

// Previous returns the exchange of the request before in the history, or in the one that the request parts from; "" if there is none.
func (t *Turn) Previous() string { return t.previous }
