package sizing

// Default returns the constants measured with an EPYC of 2 cores, shared with other work. deploy/SIZING.md has the commands.
func Default() Measured {
	return Measured{
		NATS: Cost{60e-6, 1.2e-9}, Analyzer: Cost{150e-6, 5e-9}, ClickHouse: Cost{50e-6, 20e-9}, Loop: Cost{50e-6, 1e-9},
		InsertsPerBatch: 4, BatchesPerSecond: 0.7, LedgerPerBatch: 5, ConversationBytes: 2000, DiskPerCall: 300, DiskPerNewByte: 0.2,
		TallySeriesBytes: 240, SubjectBytes: 300, StreamBytesPerSec: 600e6, StreamEventsPerSec: 80_000,
	}
}

// Recorded is the mean call of the recorded traffic that the fleet of llmtap bench is made after; see deploy/bench/load.
func Recorded() Fleet {
	return Fleet{CallBytes: 37_000, NewBytes: 6000, RetentionDays: 14, Cores: 16, Replicas: 3}
}

// callsPerConversation is the mean of the recorded traffic.
const callsPerConversation = 36934. / 12440
