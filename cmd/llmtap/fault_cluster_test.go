package main

import (
	"syscall"
	"time"
)

// Faults of a single nats-server. Hooks keep their calls, and the collector continues where it was.
var natsFaults = []fault{
	{
		name: "nats-server is killed", times: 6, start: separate,
		strike: func(r *faultRun) func() { r.nats.kill(r.T); r.nats.start(r.T); return nil },
	},
	{
		name: "nats-server is away", hold: 30 * time.Second, start: separate,
		strike: func(r *faultRun) func() { r.nats.kill(r.T); return func() { r.nats.start(r.T) } },
	},
	{
		name: "nats-server is paused", hold: 25 * time.Second, start: separate,
		strike: func(r *faultRun) func() { return pause(r, r.nats.cmd.Process.Pid) },
	},
	{
		name: "nats-server is restarted", times: 3, start: separate,
		strike: func(r *faultRun) func() { r.nats.stop(r.T); r.nats.start(r.T); return nil },
	},
}

// Faults of a cluster of three nats-servers with three replicas.
var clusterFaults = []fault{
	{
		name: "cluster: the leader is killed", short: true, times: 4, hold: 5 * time.Second, start: clustered(false),
		strike: func(r *faultRun) func() {
			n := r.cluster.leader(r.T)
			n.kill(r.T)
			return func() { n.start(r.T); r.cluster.awaitReplicas(r.T) }
		},
	},
	{
		name: "cluster: two nodes are killed", hold: 20 * time.Second, start: clustered(false),
		strike: func(r *faultRun) func() {
			for _, n := range r.cluster.nodes[:2] {
				n.kill(r.T)
			}
			return func() {
				for _, n := range r.cluster.nodes[:2] {
					n.start(r.T)
				}
			}
		},
	},
	{
		name: "cluster: the leader is paused", hold: 25 * time.Second, start: clustered(false),
		strike: func(r *faultRun) func() { return pause(r, r.cluster.leader(r.T).cmd.Process.Pid) },
	},
	{
		name: "cluster: rolling restart", start: clustered(false),
		strike: func(r *faultRun) func() {
			for _, n := range r.cluster.nodes {
				n.stop(r.T)
				n.start(r.T)
				n.awaitReady(r.T)
				r.cluster.awaitReplicas(r.T)
			}
			return nil
		},
	},
	{
		name: "cluster: a node is replaced by one with an empty disk", hold: 5 * time.Second, start: clustered(false),
		strike: func(r *faultRun) func() {
			n := r.cluster.leader(r.T)
			n.kill(r.T)
			return func() { n.replace(r.T); r.cluster.awaitReplicas(r.T) }
		},
	},
	{
		name: "cluster: the leader is cut off", hold: 40 * time.Second, start: clustered(true),
		strike: func(r *faultRun) func() {
			n := r.cluster.leader(r.T)
			n.network.cut(r.T)
			return func() { n.network.join(r.T) }
		},
	},
	{
		name: "cluster: each node is cut off in turn", start: clustered(true),
		strike: func(r *faultRun) func() {
			for _, n := range r.cluster.nodes {
				n.network.cut(r.T)
				time.Sleep(15 * time.Second)
				n.network.join(r.T)
				r.cluster.awaitReplicas(r.T)
			}
			return nil
		},
	},
	{
		name: "cluster: a node is cut off and replaced", hold: 40 * time.Second, start: clustered(true),
		strike: func(r *faultRun) func() {
			n := r.cluster.leader(r.T)
			n.network.cut(r.T)
			return func() {
				n.kill(r.T)
				n.network.join(r.T)
				n.replace(r.T)
				r.cluster.awaitReplicas(r.T)
			}
		},
	},
}

// A reader that is too slow.
var readerFaults = []fault{
	{
		name: "the collector is stopped for 9 tenths of the time", hold: 30 * time.Second, start: separate,
		strike: func(r *faultRun) func() {
			stop := make(chan struct{})
			done := make(chan struct{})
			pid := r.up().cmd.Process.Pid
			go func() {
				defer close(done)
				for {
					signalProcess(r.T, pid, syscall.SIGSTOP)
					time.Sleep(450 * time.Millisecond)
					signalProcess(r.T, pid, syscall.SIGCONT)
					select {
					case <-stop:
						return
					case <-time.After(50 * time.Millisecond):
					}
				}
			}()
			return func() { close(stop); <-done }
		},
	},
	{name: "a client of NATS subscribes to all events and does not read", hold: 20 * time.Second, start: embedded, strike: stuckSubscriber},
}
