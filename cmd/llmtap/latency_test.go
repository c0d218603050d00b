package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var (
	alertCount = flag.Int("alerts", 4, "number of alerts of TestAlertLatency")
	alertRate  = flag.Int("alert-rate", 50, "exchanges per second of the background load")
	alertEvery = flag.Duration("alert-every", 3*time.Second, "mean time between two stages that start to fail; 0: all start within a second")
	slackBurst = flag.Int("slack-burst", 1, "messages that the local Slack accepts at once; it accepts one more per second")
	alertSteps = flag.Duration("alert-interval", time.Second, "alerts.evaluation_interval of the collector")
)

// Limits of the time from the call that crosses the threshold to the accepted notification.
const (
	maxLatencyP50 = 3 * time.Second
	maxLatencyP99 = 5 * time.Second
)

// TestAlertLatency measures the time from the call that crosses the threshold of an alert until Slack, or a webhook, accepts the
// notification. The collector is a process with embedded servers, under load. Failing stages continue to fail, so that their
// messages are updated and use up the rate limits of Slack. All alerts count. They cross the threshold at random times relative
// to the evaluation, to each other and to the full second.
//
// The first command measures alerts that are paced, the second one a storm.
//
//	go test ./cmd/llmtap -run TestAlertLatency -alerts 200 -alert-rate 400 -v -timeout 30m
//	go test ./cmd/llmtap -run TestAlertLatency -alerts 200 -alert-rate 400 -alert-every 0 -v
func TestAlertLatency(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	needClickHouse(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, requires /proc")
	}
	w := newAlertWatch(t, newFailingStages(*alertCount))
	text := fmt.Sprintf("slack: {token: xoxb-test, channel: '#oncall', api_url: '%s/api/'}\nwebhook: {url: '%s', secret: 0123456789abcdef}\nalerts: {evaluation_interval: %v}\n",
		w.slackURL, w.webhookURL, *alertSteps)
	config := filetest.Temp(t, "llmtap.yaml", text)
	up := startUp(t, "--config", config)
	up.ready(t)
	w.listen(t, up.url())
	start, used, machine := time.Now(), cpuTime(up.cmd.Process.Pid), loadAverage()
	load := newAlertLoad(t, up.url(), w)
	load.run(t, *alertRate, *alertEvery)
	if missing := w.wait(time.Minute); len(missing) > 0 {
		t.Errorf("%d of %d alerts are missing: %s\n%s", len(missing), *alertCount, strings.Join(missing, ", "), up.stderr.String())
	}
	took := time.Since(start)
	t.Logf("\n%s", w.table())
	t.Logf("load: %d exchanges in %.0f s, %.0f per second, %d events not published; %d stages start to fail, one every %v on average; seed %d",
		load.calls, load.took.Seconds(), float64(load.calls)/load.took.Seconds(), load.pub.Failed(), *alertCount, *alertEvery, alertSeed)
	t.Logf("slack: %s", w.limits.report())
	t.Logf("machine: %d cores, load average %s before and %s after; the collector used %.2f cores; alerts.evaluation_interval %v",
		runtime.NumCPU(), machine, loadAverage(), (cpuTime(up.cmd.Process.Pid)-used).Seconds()/took.Seconds(), *alertSteps)
	w.check(t)
}

// cpuTime returns the CPU time of a process.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may contain spaces
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond // a tick is 10 ms on every Linux that Go supports
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
