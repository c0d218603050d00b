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
// It reads whole bodies, as a hook captured them, not connections, and does not interpret payloads. Nothing is copied:
// names, values and payloads are slices of the body, so a false length costs nothing.
package eventstream
