// Package eventstream splits the body of an application/vnd.amazon.eventstream answer into its messages, and writes
// them.
//
//	one frame, all numbers big endian, both checksums CRC-32 (IEEE):
//
//	 0      4              8           12                          n-4     n
//	 ├──────┼──────────────┼───────────┼─────────┬─────────────────┼───────┤
//	 │ n    │ header bytes │ CRC 0..8  │ headers │ payload         │ CRC   │
//	 └──────┴──────────────┴───────────┴─────────┴─────────────────┴───────┘
//	                                     └ one header: name length (1 byte), name, type (1), value
//
// It reads whole bodies, as a hook captured them, not connections, and knows nothing of what a payload means. Nothing
// is copied: names, values and payloads are slices of the body, so a length that lies costs nothing.
package eventstream
