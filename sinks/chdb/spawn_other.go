//go:build !linux

package chdb

import (
	"os"
	"syscall"
)

// sysProcAttr does not set Pdeathsig, which exists only on Linux. The child exits when its standard input ends.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func lockThread() (unlock func()) { return func() {} }

func executable() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

func preferOOM() {}
