package chdb

import (
	"os"
	"runtime"
	"syscall"
)

// sysProcAttr makes the child die with the parent, at once, so that it never holds the directory's lock against the
// parent's successor; and keeps the terminal's Ctrl-C from it, because the parent stops it in order.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// lockThread keeps the calling goroutine on its thread: Pdeathsig strikes when the thread that started the child ends.
func lockThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// executable is this very binary, even if its file was replaced meanwhile.
func executable() string { return "/proc/self/exe" }

// preferOOM makes the kernel choose this process before the parent when memory runs out.
func preferOOM() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0o644) }
