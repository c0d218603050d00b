package sizing

// Default returns the constants measured with an EPYC of 2 cores, shared with other work. deploy/SIZING.md has the commands.
func Default() Measured {
	return Measured{
		NATS: Cost{145e-6, 2.6e-9}, Analyzer: Cost{200e-6, 1.6e-9}, ClickHousePerInsert: 0.05, ClickHousePerNewByte: 30e-9,
		InsertsPerBatch: 4.7, LedgerPerFailure: 1.2, ConversationBytes: 2200, DiskPerNewByte: 0.30,
		LoopShare: 0.5, HeapPerEstimate: 2.0, TallySeriesBytes: 215, TallyFailureBytes: 1150, TallySeries: 1260, SubjectBytes: 230, StreamBytesPerSec: 600e6, StreamEventsPerSec: 80_000,
	}
}

// Recorded is the mean call of the recorded traffic that the fleet of llmtap bench is made after; see deploy/bench/load.
func Recorded() Fleet {
	return Fleet{CallBytes: 37_000, NewBytes: 5800, Failed: 0.0276, RetentionDays: 14, Cores: 16, Memory: 16 << 30, Replicas: 3}
}

// callsPerConversation is the mean of the recorded traffic.
const callsPerConversation = 36934. / 12440
