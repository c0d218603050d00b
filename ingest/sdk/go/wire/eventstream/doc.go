// Package eventstream reads and writes application/vnd.amazon.eventstream bodies.
//
//	one frame, all numbers big endian, both checksums CRC-32 (IEEE):
//
//	 0      4              8           12                          n-4     n
//	 ├──────┼──────────────┼───────────┼─────────┬─────────────────┼───────┤
//	 │ n    │ header bytes │ CRC 0..8  │ headers │ payload         │ CRC   │
//	 └──────┴──────────────┴───────────┴─────────┴─────────────────┴───────┘
//	                                     └ one header: name length (1 byte), name, type (1), value
//
// It reads complete bodies as captured by a hook, not connections, and does not interpret payloads. Names, values and
// payloads are slices of the body, not copies, so a wrong length allocates nothing.
package eventstream
