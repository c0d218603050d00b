// Package mend is the command llmtap repair: it repairs recorded and stored histories with package repair.
//
//	file ─> records.Values ─> records.Record ─> repair.Repair ─> Output: the history or a patch, and a report
//	ClickHouse ─> show.Store ─> newest request, answers ─┘
package mend
