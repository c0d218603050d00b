package natsserver

import (
	"fmt"
	"log/slog"
)

// logger passes the server's log lines to slog, as an attribute because they contain values. Notices, a page at every
// start, are logged at debug level.
type logger struct {
	log   *slog.Logger
	fatal chan<- string // receives the first fatal line, after which the server runs but is unusable
}

func (l *logger) Noticef(format string, v ...any) {
	l.log.Debug("nats-server notice", "line", fmt.Sprintf(format, v...))
}

func (l *logger) Warnf(format string, v ...any) {
	l.log.Warn("nats-server warning", "line", fmt.Sprintf(format, v...))
}

func (l *logger) Errorf(format string, v ...any) {
	l.log.Error("nats-server error", "line", fmt.Sprintf(format, v...))
}

func (l *logger) Debugf(string, ...any) {}
func (l *logger) Tracef(string, ...any) {}

func (l *logger) Fatalf(format string, v ...any) {
	msg := fmt.Sprintf(format, v...)
	select {
	case l.fatal <- msg:
	default:
	}
	l.log.Error("nats-server failed", "line", msg)
}
