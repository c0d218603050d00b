package sizing

// Default returns the constants measured with an EPYC of 2 cores, shared with other work. deploy/SIZING.md has the commands.
func Default() Measured {
	return Measured{
		NATS: Cost{100e-6, 3e-9}, Analyzer: Cost{130e-6, 5e-9}, ClickHousePerInsert: 0.045, ClickHousePerNewByte: 20e-9,
		InsertsPerBatch: 4.5, LedgerPerFailure: 1.3, ConversationBytes: 2200, DiskPerNewByte: 0.32,
		LoopShare: 0.5, HeapPerEstimate: 1.7, TallySeriesBytes: 215, TallySeries: 1260, SubjectBytes: 300, StreamBytesPerSec: 600e6, StreamEventsPerSec: 80_000,
	}
}

// Recorded is the mean call of the recorded traffic that the fleet of llmtap bench is made after; see deploy/bench/load.
func Recorded() Fleet {
	return Fleet{CallBytes: 37_000, NewBytes: 5800, Failed: 759. / 27485, RetentionDays: 14, Cores: 16, Memory: 16 << 30, Replicas: 3}
}

// callsPerConversation is the mean of the recorded traffic.
const callsPerConversation = 36934. / 12440
