package process

import "syscall"

// endWithParent returns attributes with which a program ends when its parent does. It also does not receive the Ctrl-C of the
// terminal, because its parent ends it.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
