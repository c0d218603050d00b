//go:build !linux

package terminal

// ttyWidth returns 0, because the size is read on Linux only.
func ttyWidth() int { return 0 }
