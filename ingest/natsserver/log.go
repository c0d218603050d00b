package natsserver

import (
	"fmt"
	"log/slog"
)

// logger passes the server's lines to slog: its notices are a page at every start, so they are debug lines here.
type logger struct {
	log   *slog.Logger
	fatal chan<- string // takes the first fatal line; the server goes on after it, useless
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *logger) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l *logger) Errorf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(string, ...any)           {}
func (l *logger) Tracef(string, ...any)           {}

func (l *logger) Fatalf(format string, v ...any) {
	msg := fmt.Sprintf(format, v...)
	select {
	case l.fatal <- msg:
	default:
	}
	l.log.Error(msg)
}
