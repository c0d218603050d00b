package clickhouse

import (
	"maps"
	"slices"

	chcolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"
)

// A sortedMap is a value of a Map column, written in the order of its keys: ClickHouse compares and groups maps by their
// order, and the order of a Go map varies.
type sortedMap map[string]string

var _ chcolumn.IterableOrderedMap = sortedMap(nil)

// Put implements chcolumn.IterableOrderedMap, for reading.
func (m sortedMap) Put(key, value any) { m[key.(string)] = value.(string) }

// Iterator implements chcolumn.IterableOrderedMap.
func (m sortedMap) Iterator() chcolumn.MapIterator {
	return &mapIterator{m: m, keys: slices.Sorted(maps.Keys(m)), at: -1}
}

type mapIterator struct {
	m    sortedMap
	keys []string
	at   int
}

func (i *mapIterator) Next() bool { i.at++; return i.at < len(i.keys) }
func (i *mapIterator) Key() any   { return i.keys[i.at] }
func (i *mapIterator) Value() any { return i.m[i.keys[i.at]] }
