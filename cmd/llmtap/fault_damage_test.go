package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Files of the stream, of the buckets and of ClickHouse that the disk has damaged. The collector reads nothing for a while before,
// so that the damage hits events that are acknowledged and not read yet.
var damageFaults = []fault{
	damagedStream("the last third of the stream's newest block is cut off", func(r *faultRun, dir string) {
		block := newestBlock(r, dir)
		truncate(r, block, size(r, block)*2/3)
	}),
	damagedStream("bytes in the stream's newest block are flipped", func(r *faultRun, dir string) {
		block := newestBlock(r, dir)
		flip(r, block, size(r, block)*8/10, 64)
	}),
	replacedStream("the stream's newest block is deleted", "the event stream ", func(r *faultRun, dir string) { remove(r, newestBlock(r, dir)) }),
	damagedStream("the stream's index is deleted", func(r *faultRun, dir string) {
		r.nats.start(r.T) // a server that is killed has no index
		r.nats.awaitReady(r.T)
		r.nats.stop(r.T)
		remove(r, filepath.Join(dir, "msgs", "index.db"))
	}),
	replacedStream("the stream's metadata is deleted", "the event stream was recreated", func(r *faultRun, dir string) { remove(r, filepath.Join(dir, "meta.inf")) }),
	replacedStream("the stream is deleted", "the event stream was recreated", func(r *faultRun, dir string) { remove(r, dir) }),
	damagedStream("the checkpoints are cut off", func(r *faultRun, dir string) {
		block := newestBlock(r, bucketDir(dir, event.BucketCheckpoint))
		truncate(r, block, size(r, block)/2)
	}),
	damagedStream("the checkpoints are deleted", func(r *faultRun, dir string) { remove(r, bucketDir(dir, event.BucketCheckpoint)) }),
	damagedStream("the state of the alerts is deleted", func(r *faultRun, dir string) { remove(r, bucketDir(dir, event.BucketAlerts)) }),
	replacedStream("all files of NATS are deleted", "", func(r *faultRun, dir string) { remove(r, r.nats.Dir) }),
	damagedEngine("the last half of a part of ClickHouse is cut off", "ClickHouse has set damaged parts aside", 0, cutPart),
	damagedEngine("the metadata of a table of ClickHouse is emptied, then restored", "embedded ClickHouse does not start", 20*time.Second, func(r *faultRun) func() {
		return empty(r, largest(r, clickHouseDir(r.up()), regexp.MustCompile(`/metadata/.*/exchanges\.sql$|/store/.*/exchanges\.sql$`)))
	}),
}

// damagedStream returns the fault that damage does to the files of the event stream in dir, or of another stream beside it.
func damagedStream(name string, damage func(r *faultRun, dir string)) fault {
	return fault{name: name, damages: true, start: separate, check: checkLosses, strike: func(r *faultRun) func() {
		time.Sleep(3 * time.Second) // until there is a checkpoint
		r.up().kill(r.T)
		time.Sleep(5 * time.Second)
		agents := r.load.cmd.Process.Pid
		signalProcess(r.T, agents, syscall.SIGSTOP)
		defer signalProcess(r.T, agents, syscall.SIGCONT)
		time.Sleep(500 * time.Millisecond) // until what they have sent is stored
		r.before, r.unread = r.readStream()
		r.nats.kill(r.T)
		damage(r, filepath.Join(r.nats.Dir, "jetstream", "$G", "streams", event.StreamEvents))
		r.nats.start(r.T)
		r.nats.awaitReady(r.T)
		r.up().start(r.T)
		return nil
	}}
}

// replacedStream returns a fault after which the stream has none of the messages that the collector knew. The gap in the numbers of
// processes is unknown then; the collector says what has happened instead.
func replacedStream(name, says string, damage func(r *faultRun, dir string)) fault {
	f := damagedStream(name, damage)
	f.says, f.check = says, nil
	return f
}

// damagedEngine returns the fault that damage does to the files of the embedded ClickHouse, and what the collector says about it. What
// damage returns ends the fault.
func damagedEngine(name, says string, hold time.Duration, damage func(r *faultRun) (mend func())) fault {
	return fault{name: name, says: says, hold: hold, damages: true, start: embedded, check: checkLosses, strike: func(r *faultRun) func() {
		agents := r.load.cmd.Process.Pid
		signalProcess(r.T, agents, syscall.SIGSTOP)
		defer signalProcess(r.T, agents, syscall.SIGCONT)
		time.Sleep(3 * time.Second) // until all is stored
		r.before, r.unread = r.readStream()
		r.parts = r.rowsByPart()
		r.up().kill(r.T)
		mend := damage(r)
		r.up().start(r.T)
		return mend
	}}
}

// rowsByPart returns the exchanges stored in each part of the table.
func (r *faultRun) rowsByPart() map[string][]string {
	r.Helper()
	res := must.Get(r.rows.query(r.Context(), "SELECT _part, groupArray(exchange_id) FROM exchanges GROUP BY _part"))(r)
	parts := map[string][]string{}
	for _, row := range res.Rows {
		parts[row[0].(string)] = row[1].([]string)
	}
	return parts
}

// cutPart cuts off half of the largest part of the exchanges, whose rows are lost.
func cutPart(r *faultRun) func() {
	part := ""
	for name, ids := range r.parts {
		if len(ids) > len(r.parts[part]) {
			part = name
		}
	}
	file := largest(r, clickHouseDir(r.up()), regexp.MustCompile("/"+part+`/.*\.bin$`))
	truncate(r, file, size(r, file)/2)
	r.rotten = append(r.rotten, r.parts[part]...)
	return nil
}

// empty empties a file and returns what restores it.
func empty(r *faultRun, file string) func() {
	text := filetest.Read(r, file)
	truncate(r, file, 0)
	return func() {
		must.Do(r, os.WriteFile(file, text, 0o640))
	}
}

// readStream returns the exchange of each event in the stream by message id, and the ids of those that are not stored according to
// the checkpoint.
func (r *faultRun) readStream() (exchanges map[string]string, unread map[string]bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	js := streams(r.T, r.natsURL)
	stored := uint64(0)
	if kv, err := js.KeyValue(ctx, event.BucketCheckpoint); err == nil {
		var checkpoint struct{ Stored uint64 }
		if e, err := kv.Get(ctx, "p0of1"); err == nil && json.Unmarshal(e.Value(), &checkpoint) == nil {
			stored = checkpoint.Stored
		}
	}
	exchanges, unread = map[string]string{}, map[string]bool{}
	err := replayStream(ctx, js, event.StreamEvents, func(m natsjs.Msg, meta *natsjs.MsgMetadata) error {
		events, err := event.DecodeAll(m.Subject(), event.Header(m.Headers()), m.Data())
		if err != nil {
			return err
		}
		for _, e := range events {
			exchanges[e.MessageID()] = e.Exchange
			unread[e.MessageID()] = meta.Sequence.Stream > stored
		}
		return nil
	})
	must.Do(r, err)
	return exchanges, unread
}

// findLosses compares the stream with what it contained before the damage.
func (r *faultRun) findLosses() {
	r.Helper()
	after, _ := r.readStream()
	r.expected = map[string]bool{}
	for _, exchange := range r.rotten {
		r.expected[exchange] = true
	}
	for id, exchange := range r.before {
		if _, ok := after[id]; ok {
			continue
		}
		r.expected[exchange] = true
		if r.unread[id] {
			r.lost++
		}
	}
}

// awaitLosses waits until the collector has counted each event that the disk lost before it was read: by its absence from the stream, at
// once, or by a gap in the numbers of its process, half a minute later.
func (r *faultRun) awaitLosses() {
	r.Helper()
	r.findLosses()
	js := streams(r.T, r.natsURL)
	for end := time.Now().Add(lossesWithin); ; time.Sleep(time.Second) {
		r.counted = metricValue(r.up().metrics(r.T), `llmtap_ingest_events_dropped_total{reason="lost"}`)
		if sums, err := countTallies(r.Context(), js); err == nil {
			r.counted = max(r.counted, sums[analyzer.MetricLost])
		}
		if r.counted >= r.lost || time.Now().After(end) {
			return
		}
	}
}

// lossesWithin is the time within which gaps in the numbers of processes are counted.
const lossesWithin = time.Minute

// checkLosses fails the test unless the collector has counted what the disk lost.
func checkLosses(r *faultRun) {
	r.Helper()
	if r.counted != r.lost {
		r.Errorf("the disk lost %d unread events; llmtap counts %d", r.lost, r.counted)
	}
}

// metricValue returns the value of a series without a fraction, 0 if there is none.
func metricValue(metrics, series string) uint64 {
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(metrics)
	if m == nil {
		return 0
	}
	v, _ := strconv.ParseFloat(m[1], 64)
	return uint64(v)
}

// bucketDir returns the directory of a bucket, beside that of the event stream.
func bucketDir(stream, bucket string) string {
	return filepath.Join(filepath.Dir(stream), "KV_"+bucket)
}

// newestBlock returns the last block with messages of the stream in dir.
func newestBlock(r *faultRun, dir string) string {
	r.Helper()
	newest, number := "", -1
	files, _ := filepath.Glob(filepath.Join(dir, "msgs", "*.blk"))
	for _, f := range files {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(f), ".blk"))
		if err == nil && n > number && size(r, f) > 0 {
			newest, number = f, n
		}
	}
	if newest == "" {
		r.Fatalf("no block in %s", dir)
	}
	return newest
}

func size(r *faultRun, file string) int64 {
	r.Helper()
	info := must.Get(os.Stat(file))(r)
	return info.Size()
}

func truncate(r *faultRun, file string, to int64) {
	r.Helper()
	must.Do(r, os.Truncate(file, to))
}

// flip inverts n bytes of a file.
func flip(r *faultRun, file string, at int64, n int) {
	r.Helper()
	f := must.Get(os.OpenFile(file, os.O_RDWR, 0))(r)
	defer f.Close()
	b := make([]byte, n)
	must.Get(f.ReadAt(b, at))(r)
	for i := range b {
		b[i] = ^b[i]
	}
	must.Get(f.WriteAt(b, at))(r)
}

// remove removes a file or a directory, which must exist.
func remove(r *faultRun, path string) {
	r.Helper()
	must.Get(os.Stat(path))(r)
	must.Do(r, os.RemoveAll(path))
}

// largest returns the largest file under dir whose path matches pattern.
func largest(r *faultRun, dir string, pattern *regexp.Regexp) (file string) {
	r.Helper()
	var most int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !pattern.MatchString(path) {
			return nil // parts disappear when they are merged
		}
		if info, err := d.Info(); err == nil && info.Size() > most {
			file, most = path, info.Size()
		}
		return nil
	})
	if err != nil || file == "" {
		r.Fatalf("no file in %s matches %s: %v", dir, pattern, err)
	}
	return file
}
