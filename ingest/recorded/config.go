package recorded

import "time"

// Config provides what a file does not contain.
type Config struct {
	Name     string    // name of the file, for messages
	Service  string    // service of records without one
	Day      time.Time // day of records without a time; the time of day is ignored; zero: 1970-01-01
	Instance string    // id of this import, unique per import
	MaxLine  int       // maximum length of a line or HAR entry in bytes; 0: 64 MiB
}

const (
	defaultMaxLine = 64 << 20
	bufferSize     = 256 << 10
)
