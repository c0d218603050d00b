//go:build !linux

package chdb

import (
	"os"
	"syscall"
)

// Without Pdeathsig, the child detects the death of the parent by the end of its standard input.
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
