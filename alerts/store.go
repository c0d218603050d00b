package alerts

import "context"

// A Store persists small values across restarts. Get returns nil, nil for a missing key. Keys match [a-z0-9.-]+. It is safe
// for concurrent use.
type Store interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// A SharedStore is a Store that several processes write in turns.
type SharedStore interface {
	Store
	// Turn changes whenever another process may have written since the last call.
	Turn() uint64
}
