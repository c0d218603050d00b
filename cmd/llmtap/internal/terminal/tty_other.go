//go:build !linux

package terminal

// ttyWidth returns 0: the size is read on Linux only.
func ttyWidth() int { return 0 }
