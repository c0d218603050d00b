package terminal

import (
	"os"
	"syscall"
	"unsafe"
)

// ttyWidth returns the number of columns of the terminal on standard output, or 0 if standard output is not a terminal.
func ttyWidth() int {
	var size struct{ rows, columns, x, y uint16 }
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, os.Stdout.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))); errno != 0 {
		return 0
	}
	return int(size.columns)
}
