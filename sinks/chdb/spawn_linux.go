package chdb

import (
	"os"
	"runtime"
	"syscall"
)

// sysProcAttr returns attributes that kill the child as soon as the parent dies, so that the child does not hold the
// lock of the directory when the parent is restarted. They also protect the child from Ctrl-C in the terminal, because
// the parent stops it gracefully.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// lockThread locks the calling goroutine to its thread, because Pdeathsig is sent when the thread that started the
// child ends.
func lockThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// executable returns a path to the running binary, valid even if the file has been replaced.
func executable() string { return "/proc/self/exe" }

// preferOOM makes the OOM killer choose this process before the parent.
func preferOOM() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0o644) }
