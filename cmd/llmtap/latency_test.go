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
)

var (
	alertCount = flag.Int("alerts", 4, "how many alerts TestAlertLatency times")
	alertRate  = flag.Int("alert-rate", 50, "exchanges a second that agents publish meanwhile")
	alertEvery = flag.Duration("alert-every", 3*time.Second, "the mean time between two stages that begin to fail")
	alertSteps = flag.Duration("alert-interval", 5*time.Second, "alerts.evaluation_interval of the collector")
)

// What an alert may take from the publish of the call that crosses its threshold to the accepted post.
const (
	maxLatencyP50 = 6 * time.Second
	maxLatencyP99 = 10 * time.Second
)

// How long it takes from the publish of the call that crosses an alert's threshold until Slack, or a webhook, has taken
// the post. The collector is a process of its own with everything embedded; meanwhile agents call on, and the stages that
// fail go on failing, so that their messages change and take their share of what Slack allows. All alerts count. They
// cross at random times: with the step of the evaluation, with each other, and with the full second.
//
//	go test ./cmd/llmtap -run TestAlertLatency -alerts 200 -alert-rate 400 -v -timeout 30m
func TestAlertLatency(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long, and the race detector sees nothing new in it")
	}
	t.Parallel()
	needClickHouse(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, what the collector takes is read in /proc")
	}
	w := newAlertWatch(t, newFailingStages(*alertCount))
	config := filepath.Join(t.TempDir(), "llmtap.yaml")
	text := fmt.Sprintf("slack: {token: xoxb-test, channel: '#oncall', api_url: '%s/api/'}\nwebhook: {url: '%s', secret: 0123456789abcdef}\nalerts: {interval: %v}\n",
		w.slackURL, w.webhookURL, *alertSteps)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	up := startUp(t, "--config", config)
	up.ready(t)
	w.listen(t, up.url())
	begun, used, machine := time.Now(), cpuTime(up.cmd.Process.Pid), loadAverage()
	load := newAlertLoad(t, up.url(), w)
	load.run(t, *alertRate, *alertEvery)
	if late := w.wait(time.Minute); len(late) > 0 {
		t.Errorf("%d of %d alerts did not come: %s\n%s", len(late), *alertCount, strings.Join(late, ", "), up.stderr.String())
	}
	took := time.Since(begun)
	t.Logf("\n%s", w.table())
	t.Logf("load: %d exchanges in %.0f s, %.0f a second, %d events not stored; %d stages begin to fail, one each %v on average, and go on; seed %d",
		load.calls, load.took.Seconds(), float64(load.calls)/load.took.Seconds(), load.pub.Failed(), *alertCount, *alertEvery, alertSeed)
	t.Logf("slack: %s", w.limits.report())
	t.Logf("machine: %d cores, load average %s before and %s after; the collector took %.2f cores; alerts.evaluation_interval %v",
		runtime.NumCPU(), machine, loadAverage(), (cpuTime(up.cmd.Process.Pid)-used).Seconds()/took.Seconds(), *alertSteps)
	w.check(t)
}

// cpuTime is what a process has used of the processors.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold spaces
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond // of a hundredth of a second each, on every Linux that Go knows
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
