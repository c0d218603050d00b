// Package httpbody reads the bodies of HTTP requests in bounded memory. All receivers of one listener share a Budget.
//
//	request ── identity, gzip, zstd, … ──> Read ──> body, at most MaxBytes
//	                                       │ Take as it grows
//	                                     Budget ──full──> 429 with Retry-After
//
// # Bounds
//
// A body has at most MaxBytes, compressed and decompressed, and at most maxRatio times its compressed size. Memory is
// taken from the budget before it is allocated, while bytes arrive: neither a Content-Length nor a small compressed body
// reserves memory for bytes that the client has not sent. The decompressors have fixed windows, of at most 8 MiB, which
// are taken from the budget too.
package httpbody
