package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Clocks that jump under load and stay so. The clock of a hook is the header Llmtap-Time, which a proxy before NATS shifts. The
// clock of a process is that of its vDSO, which is patched.
var clockFaults = slices.Concat(clockJumps(time.Hour), clockJumps(-time.Hour), clockJumps(48*time.Hour), clockJumps(-48*time.Hour))

func clockJumps(by time.Duration) []fault {
	jump := fmt.Sprintf("clock jumps by %+.0f h", by.Hours())
	return []fault{
		{name: "the hooks' " + jump, start: shifted, strike: func(r *faultRun) func() { r.shift.Store(int64(by)); return nil }},
		{name: "the collector's " + jump, start: separate, strike: func(r *faultRun) func() {
			for _, u := range r.ups {
				shiftClock(r, u.cmd.Process.Pid, by)
			}
			return nil
		}},
		{name: "the NATS server's " + jump, forgets: by > 0, start: separate, strike: func(r *faultRun) func() {
			shiftClock(r, r.nats.cmd.Process.Pid, by)
			r.rows.column = "started_at" // stored_at is of the shifted clock
			return nil
		}},
		{name: "the " + jump + " for the collector and its NATS", forgets: by > 0, start: embedded, strike: func(r *faultRun) func() {
			shiftClock(r, r.up().cmd.Process.Pid, by)
			r.rows.column = "started_at"
			return nil
		}},
	}
}

// shiftClock shifts the wall clock of a process, not its monotonic one. Go reads both with clock_gettime of the vDSO; the patch
// replaces it by the system call, followed by an addition to the seconds.
func shiftClock(r *faultRun, pid int, by time.Duration) {
	r.Helper()
	if runtime.GOARCH != "amd64" {
		cannot(r.T, "the clock of a process can be shifted on amd64 only")
	}
	code := []byte{
		0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi (CLOCK_REALTIME is 0)
		0x75, 0x07, // jne +7
		0x48, 0x81, 0x06, // add qword [rsi], seconds
	}
	code = binary.LittleEndian.AppendUint32(code, uint32(int32(by/time.Second)))
	code = append(code, 0xc3) // ret
	at := vdsoRange(r, pid)[0] + vdsoSymbol(r, "__vdso_clock_gettime")
	mem, err := os.OpenFile(filepath.Join("/proc", strconv.Itoa(pid), "mem"), os.O_RDWR, 0)
	must.Do(r, err)
	defer mem.Close()
	// No thread may be in the code that is replaced.
	for range 100 {
		signalProcess(r.T, pid, syscall.SIGSTOP)
		time.Sleep(5 * time.Millisecond)
		free := !inVDSO(r, pid)
		if free {
			_, err = mem.WriteAt(code, int64(at))
		}
		signalProcess(r.T, pid, syscall.SIGCONT)
		if free && err != nil {
			r.Fatalf("patch the vDSO: %v", err)
		}
		if free {
			return
		}
	}
	r.Fatal("a thread is always in the vDSO")
}

// vdsoRange returns the addresses of the vDSO of a process.
func vdsoRange(r *faultRun, pid int) (limits [2]uint64) {
	r.Helper()
	maps := filetest.Read(r, filepath.Join("/proc", strconv.Itoa(pid), "maps"))
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &limits[0], &limits[1]); err == nil {
				return limits
			}
		}
	}
	r.Fatal("the process has no vDSO")
	return limits
}

// vdsoSymbol returns the offset of a function in the vDSO, which is the same in all processes.
func vdsoSymbol(r *faultRun, name string) uint64 {
	r.Helper()
	limits := vdsoRange(r, os.Getpid())
	self := must.Get(os.Open("/proc/self/mem"))(r)
	defer self.Close()
	image := make([]byte, limits[1]-limits[0])
	must.Get(self.ReadAt(image, int64(limits[0])))(r)
	file := must.Get(elf.NewFile(bytes.NewReader(image)))(r)
	symbols := must.Get(file.DynamicSymbols())(r)
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	if i < 0 {
		r.Fatalf("the vDSO has no %s", name)
	}
	return symbols[i].Value
}

// inVDSO reports whether a thread of a stopped process is in the vDSO.
func inVDSO(r *faultRun, pid int) bool {
	limits := vdsoRange(r, pid)
	threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "syscall"))
	for _, t := range threads {
		text, _ := os.ReadFile(t) // number of the system call, its arguments, stack pointer, program counter
		fields := strings.Fields(string(text))
		if len(fields) < 3 {
			return true // it runs
		}
		pc, err := strconv.ParseUint(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
		if err != nil || pc >= limits[0] && pc < limits[1] {
			return true
		}
	}
	return false
}

// shifted is embedded with hooks whose clock a test shifts.
func shifted(r *faultRun) {
	embedded(r)
	r.audited = r.natsURL
	u := must.Get(url.Parse(r.natsURL))(r)
	r.proxy = &tcpProxy{t: r.T, target: u.Host, addr: net.JoinHostPort("127.0.0.1", fmt.Sprint(freePort(r.T)))}
	r.proxy.rewrite = func(c net.Conn) io.Writer { return &timeShifter{to: c, shift: &r.shift} }
	r.proxy.start()
	r.Cleanup(r.proxy.stop)
	r.natsURL = "nats://" + r.proxy.addr
}

// A timeShifter shifts the times in the headers of the events that it forwards.
type timeShifter struct {
	to    io.Writer
	shift *atomic.Int64 // a time.Duration of whole seconds
	held  []byte        // the beginning of a header whose rest has not arrived
}

var timeHeader = []byte("Llmtap-Time:")

// Write implements io.Writer.
func (s *timeShifter) Write(p []byte) (int, error) {
	data := append(s.held, p...)
	s.held = nil
	shift := time.Duration(s.shift.Load())
	const layout = "2006-01-02T15:04:05" // the fraction stays as it is, and with it the length
	for at := 0; ; {
		i := bytes.Index(data[at:], timeHeader)
		if i < 0 {
			break
		}
		from := at + i + len(timeHeader)
		for from < len(data) && data[from] == ' ' {
			from++
		}
		if len(data)-from < len(layout) {
			s.held, data = bytes.Clone(data[at+i:]), data[:at+i]
			break
		}
		if t, err := time.Parse(layout, string(data[from:from+len(layout)])); err == nil {
			copy(data[from:], t.Add(shift).Format(layout))
		}
		at = from + len(layout)
	}
	for n := min(len(timeHeader)-1, len(data)); n > 0 && s.held == nil; n-- {
		if bytes.HasSuffix(data, timeHeader[:n]) {
			s.held, data = bytes.Clone(data[len(data)-n:]), data[:len(data)-n]
		}
	}
	if _, err := s.to.Write(data); err != nil {
		return 0, err
	}
	return len(p), nil
}
