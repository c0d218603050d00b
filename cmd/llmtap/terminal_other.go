//go:build !linux

package main

// ttyWidth is the number of columns of the terminal on standard output, 0 when that cannot be told.
func ttyWidth() int { return 0 }
