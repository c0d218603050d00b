package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// TestAgents checks the pods of deploy/kubernetes/agents.yaml, and runs what those of Python do, with the hook of this repository.
func TestAgents(t *testing.T) {
	_, docs, _ := strings.Cut(read(t, "deploy/kubernetes/agents.yaml"), "\n---\n")
	c := decode(t, strings.Split(docs, "\n---\n"))
	must.Equal(t, len(c.deployments), 2, "deployments")
	collector := decode(t, documents(t, ""))
	for _, d := range c.deployments {
		pod := d.Spec.Template
		if !matches(d.Spec.Selector.MatchLabels, pod.Labels) {
			t.Errorf("%s selects other pods", d.Name)
		}
		init, agent := pod.Spec.InitContainers[0], pod.Spec.Containers[0]
		must.Equal(t, init.Image, agent.Image, "image of the hook of %s", d.Name)
		for _, m := range slices.Concat(init.VolumeMounts, agent.VolumeMounts) {
			if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%s: no volume %s", d.Name, m.Name)
			}
		}
		url := env(&agent, "LLMTAP_NATS_URL").Value
		service := collector.services[slices.IndexFunc(collector.services, func(s corev1.Service) bool { return s.Name == "llmtap" })]
		if !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "nats" && p.Port == 4222 }) || !strings.HasSuffix(url, "@llmtap:4222") {
			t.Errorf("%s: %s is not the collector", d.Name, url)
		}
		must.Equal(t, env(&agent, "AGENTS_TOKEN").ValueFrom.SecretKeyRef.Key, "agents-token", "secret of %s", d.Name)
		for _, name := range []string{"LLMTAP_SERVICE", "LLMTAP_SERVICE_VERSION"} {
			label := strings.Split(env(&agent, name).ValueFrom.FieldRef.FieldPath, "'")[1]
			if pod.Labels[label] == "" {
				t.Errorf("%s has no label %s", d.Name, label)
			}
		}
	}

	// pip writes build files into the directory of a package.
	dir, hook := t.TempDir(), filepath.Join(t.TempDir(), "hook")
	must.Do(t, os.CopyFS(hook, os.DirFS(filepath.Join(top, "ingest", "sdk", "python"))))
	init, agent := c.deployments[0].Spec.Template.Spec.InitContainers[0], c.deployments[0].Spec.Template.Spec.Containers[0]
	install := slices.Clone(init.Command)
	install[0], install[len(install)-1] = "python3", hook
	volume := strings.NewReplacer("/llmtap/", dir+"/", ":/llmtap", ":"+dir)
	install[slices.Index(install, "/llmtap")] = dir
	if out, err := exec.CommandContext(t.Context(), install[0], install[1:]...).CombinedOutput(); err != nil && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED: requires a package registry: %v\n%s", err, out)
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out := run(t, []string{"PYTHONPATH=" + volume.Replace(env(&agent, "PYTHONPATH").Value), "LLMTAP_SERVICE=python-agent"}, "python3", "-c",
		"import http.server\nfrom llmtap._patch import hook_of\nprint(hook_of().config.service)")
	must.Equal(t, out, "python-agent\n", "hook")
}

func env(c *corev1.Container, name string) corev1.EnvVar {
	i := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
	return c.Env[max(i, 0)]
}
