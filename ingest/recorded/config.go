package recorded

import "time"

// Config says what the file itself does not.
type Config struct {
	Name     string    // of the file, for messages
	Service  string    // of records that do not say theirs
	Day      time.Time // of records without a time; the time of day does not count; zero: 1970-01-01
	Instance string    // of this import: new each time
	MaxLine  int       // longest line or HAR entry, in bytes; 0: 64 MiB
}

const (
	defaultMaxLine = 64 << 20
	bufferSize     = 256 << 10
)
