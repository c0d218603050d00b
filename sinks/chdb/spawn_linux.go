package chdb

import (
	"os"
	"runtime"
	"syscall"
)

// sysProcAttr kills the child as soon as the parent dies, so that it does not hold the lock of the directory when the parent
// is restarted, and protects it from Ctrl-C in the terminal, because the parent stops it gracefully.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// lockThread locks the calling goroutine to its thread: Pdeathsig is sent when the thread that started the child ends.
func lockThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// executable returns the running binary, even if its file was replaced since.
func executable() string { return "/proc/self/exe" }

// preferOOM makes the OOM killer choose this process before the parent.
func preferOOM() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0o644) }
