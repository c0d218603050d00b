package natsserver

import (
	"fmt"
	"log/slog"
)

// logger passes the server's lines to slog, as an attribute: they are sentences with values in them. Its notices are a
// page at every start, so they are debug lines here.
type logger struct {
	log   *slog.Logger
	fatal chan<- string // takes the first fatal line; the server goes on after it, useless
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
	l.log.Error("nats-server gave up", "line", msg)
}
