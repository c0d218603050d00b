package eventstream

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Append appends m as a frame. Headers that are empty are left out; what of one exceeds 65,535 bytes is cut off, which
// no message that was read has. The payload must be shorter than 4 GiB.
func Append(dst []byte, m Message) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, preludeBytes)...)
	for _, h := range [...]struct {
		name  string
		value []byte
	}{
		{":message-type", m.Type},
		{":event-type", m.EventType},
		{":exception-type", m.ExceptionType},
		{":error-code", m.ErrorCode},
		{":error-message", m.ErrorMessage},
		{":content-type", m.ContentType},
	} {
		if len(h.value) == 0 {
			continue
		}
		value := h.value[:min(len(h.value), math.MaxUint16)]
		dst = append(append(append(dst, byte(len(h.name))), h.name...), typeString)
		dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(value))), value...)
	}
	headers := len(dst) - start - preludeBytes
	dst = append(dst, m.Payload...)
	frame := dst[start:]
	binary.BigEndian.PutUint32(frame, uint32(len(frame)+checksumBytes))
	binary.BigEndian.PutUint32(frame[4:], uint32(headers))
	binary.BigEndian.PutUint32(frame[8:], crc32.ChecksumIEEE(frame[:8]))
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(frame))
}
