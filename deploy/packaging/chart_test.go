package packaging

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const external = "nats: {url: 'tls://nats.internal:4222'}\nclickhouse: {dsn: 'clickhouse://llmtap@ch.internal:9440/llmtap?secure=true'}\n"

// render returns the files of the chart with values in YAML.
func render(ctx context.Context, values string) (map[string]string, error) {
	c, err := loader.LoadDir(filepath.Join(top, "deploy", "helm", "llmtap"))
	if err != nil {
		return nil, err
	}
	set := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &set); err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(c, set, common.ReleaseOptions{Name: "llmtap", Namespace: "llmtap", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(ctx, c, all)
	if err != nil {
		return nil, err
	}
	return files, nil
}

// documents returns the manifests of the chart, in the order of its files.
func documents(t *testing.T, values string) []string {
	t.Helper()
	files, err := render(t.Context(), values)
	if err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	var docs []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for doc := range strings.SplitSeq("\n"+files[name], "\n---") {
			if doc = strings.TrimSpace(doc); doc != "" && strings.HasSuffix(name, ".yaml") {
				docs = append(docs, doc)
			}
		}
	}
	return docs
}

// A cluster contains the objects of a chart.
type cluster struct {
	config       corev1.ConfigMap
	services     []corev1.Service
	deployments  []appsv1.Deployment
	statefulSets []appsv1.StatefulSet
	budgets      []policyv1.PodDisruptionBudget
	scalers      []autoscalingv2.HorizontalPodAutoscaler
	network      []networkingv1.NetworkPolicy
	monitors     int
}

// decode decodes the documents strictly: an unknown field is an error.
func decode(t *testing.T, docs []string) *cluster {
	t.Helper()
	c := &cluster{}
	for _, doc := range docs {
		var meta metav1.TypeMeta
		must.Do(t, yaml.Unmarshal([]byte(doc), &meta), doc)
		var err error
		switch kind := meta.APIVersion + " " + meta.Kind; kind {
		case "v1 ConfigMap":
			err = yaml.UnmarshalStrict([]byte(doc), &c.config)
		case "v1 Service":
			err = add(doc, &c.services)
		case "apps/v1 Deployment":
			err = add(doc, &c.deployments)
		case "apps/v1 StatefulSet":
			err = add(doc, &c.statefulSets)
		case "policy/v1 PodDisruptionBudget":
			err = add(doc, &c.budgets)
		case "autoscaling/v2 HorizontalPodAutoscaler":
			err = add(doc, &c.scalers)
		case "networking.k8s.io/v1 NetworkPolicy":
			err = add(doc, &c.network)
		case "monitoring.coreos.com/v1 ServiceMonitor": // its types are not in k8s.io/api
			c.monitors++
		default:
			t.Errorf("unexpected %s", kind)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, doc)
		}
	}
	return c
}

func add[T any](doc string, list *[]T) error {
	var v T
	if err := yaml.UnmarshalStrict([]byte(doc), &v); err != nil {
		return err
	}
	*list = append(*list, v)
	return nil
}

// pods returns the pod templates by the name of their workload.
func (c *cluster) pods() map[string]corev1.PodTemplateSpec {
	all := map[string]corev1.PodTemplateSpec{}
	for _, d := range c.deployments {
		all[d.Name] = d.Spec.Template
	}
	for _, s := range c.statefulSets {
		all[s.Name] = s.Spec.Template
	}
	return all
}

// check checks what must hold for any values.
func (c *cluster) check(t *testing.T) {
	t.Helper()
	checkConfig(t, c.config.Data["llmtap.yaml"])
	for _, secret := range []string{"password:", "token:"} {
		if strings.Contains(c.config.Data["llmtap.yaml"], secret) {
			t.Errorf("a secret in the ConfigMap:\n%s", c.config.Data["llmtap.yaml"])
		}
	}
	pods := c.pods()
	if len(pods) == 0 {
		t.Error("no pods")
	}
	for name, pod := range pods {
		checkPod(t, name, &pod)
	}
	selects := func(what string, selector map[string]string) (found []corev1.PodTemplateSpec) {
		t.Helper()
		for _, pod := range pods {
			if matches(selector, pod.Labels) {
				found = append(found, pod)
			}
		}
		if len(found) == 0 || len(selector) == 0 {
			t.Errorf("%s selects no pods with %v", what, selector)
		}
		return found
	}
	for _, d := range c.deployments {
		if found := selects(d.Name, d.Spec.Selector.MatchLabels); len(found) != 1 {
			t.Errorf("deployment %s selects %d kinds of pods", d.Name, len(found))
		}
	}
	for _, s := range c.services {
		for _, pod := range selects("service "+s.Name, s.Spec.Selector) {
			for _, p := range s.Spec.Ports {
				if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool {
					return intstr.FromString(c.Name) == p.TargetPort && c.ContainerPort == p.Port
				}) {
					t.Errorf("service %s: port %s is not in the pod", s.Name, p.Name)
				}
			}
		}
	}
	for _, b := range c.budgets {
		selects("budget "+b.Name, b.Spec.Selector.MatchLabels)
	}
	for _, n := range c.network {
		if found := selects("policy "+n.Name, n.Spec.PodSelector.MatchLabels); len(found) != len(pods) {
			t.Errorf("policy %s protects %d of %d kinds of pods", n.Name, len(found), len(pods))
		}
	}
	for _, s := range c.scalers {
		if !slices.ContainsFunc(c.deployments, func(d appsv1.Deployment) bool {
			return d.Name == s.Spec.ScaleTargetRef.Name && d.Spec.Replicas == nil // or both would set it
		}) {
			t.Errorf("scaler %s scales nothing", s.Name)
		}
	}
}

func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func checkPod(t *testing.T, name string, pod *corev1.PodTemplateSpec) {
	t.Helper()
	s, c := pod.Spec.SecurityContext, pod.Spec.Containers[0]
	if !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.Spec.AutomountServiceAccountToken {
		t.Errorf("%s: security context of the pod: %v", name, s)
	}
	if x := c.SecurityContext; !*x.ReadOnlyRootFilesystem || *x.AllowPrivilegeEscalation || len(x.Capabilities.Drop) != 1 || x.Capabilities.Drop[0] != "ALL" {
		t.Errorf("%s: security context: %v", name, x)
	}
	if c.LivenessProbe == nil || c.ReadinessProbe == nil || c.StartupProbe == nil || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Errorf("%s: probes are missing", name)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("%s: resources: %v", name, c.Resources)
	}
	for _, m := range c.VolumeMounts {
		claimed := name == "llmtap" && m.Name == "data" // by the StatefulSet
		if !claimed && !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("%s: no volume %s", name, m.Name)
		}
	}
}

func TestChart(t *testing.T) {
	f := func(values string, deployments, statefulSets, budgets, scalers int) *cluster {
		t.Helper()
		c := decode(t, documents(t, values))
		c.check(t)
		if len(c.deployments) != deployments || len(c.statefulSets) != statefulSets || len(c.budgets) != budgets || len(c.scalers) != scalers || len(c.network) > 1 {
			t.Errorf("%s: %d deployments, %d stateful sets, %d budgets, %d scalers", values, len(c.deployments), len(c.statefulSets), len(c.budgets), len(c.scalers))
		}
		return c
	}
	f("", 0, 1, 0, 0)
	c := f(external, 5, 0, 5, 1)
	must.Equal(t, c.scalers[0].Spec.MaxReplicas, 4, "analyzers")
	c = f(external+"partitions: 2\nroles: {analyze: {autoscaling: {maxReplicas: 9}}, proxy: {replicas: 0}}\n", 4, 0, 4, 1)
	must.Equal(t, c.scalers[0].Spec.MaxReplicas, 2, "analyzers of 2 partitions")
	c = f(external+"partitions: 1\n", 5, 0, 5, 1)
	if s := c.scalers[0].Spec; *s.MinReplicas != 1 || s.MaxReplicas != 1 {
		t.Errorf("%d to %d analyzers of 1 partition", *s.MinReplicas, s.MaxReplicas)
	}
	f(external+"roles: {analyze: {replicas: 3, autoscaling: {enabled: false}}}\n", 5, 0, 5, 0)
	c = f("tlsSecretName: llmtap-tls\nserviceMonitor: {enabled: true}\nnetworkPolicy: {enabled: false}\npodAnnotations: {a: b}\ntolerations: [{key: x, operator: Exists}]\n"+
		"config: {slack: {channel: '#oncall', token_file: /etc/llmtap/secrets/slack-token}, ui: {external_url: https://llmtap.example.com}}\n", 0, 1, 0, 0)
	if text := c.config.Data["llmtap.yaml"]; c.monitors != 1 || !strings.Contains(text, "external_url") || !strings.Contains(text, "listen: 0.0.0.0:8090") {
		t.Errorf("%d monitors\n%s", c.monitors, text)
	}
	p := c.statefulSets[0].Spec.Template.Spec.Containers[0].ReadinessProbe
	must.Equal(t, p.HTTPGet.Scheme, corev1.URISchemeHTTPS, "the probe uses no TLS")

	refused := func(values, reason string) {
		t.Helper()
		must.Fail(t, must.Err(render(t.Context(), values)), reason, values)
	}
	refused("nats: {url: 'nats://x'}", "set both nats.url and clickhouse.dsn")
	refused("replicas: 2", "additional properties 'replicas' not allowed")
	refused("config: {slack: {chanel: '#oncall'}}", "additional properties 'chanel' not allowed")
	refused("nats: {url: localhost}", "does not match pattern")
	refused("roles: {analyze: {replicas: two}}", "want integer")
}

// TestManifests checks that deploy/kubernetes is what the chart renders; with -update it writes it.
func TestManifests(t *testing.T) {
	for name, values := range map[string]string{"llmtap.yaml": "", "roles.yaml": external} {
		head := "# Made from deploy/helm/llmtap by go generate: one pod with embedded servers and a volume.\n"
		if values != "" {
			head = "# Made from deploy/helm/llmtap by go generate: a Deployment per role. Replace nats.url and clickhouse.dsn in the ConfigMap.\n"
		}
		head += "# The Secret llmtap has the tokens: see deploy/README.md.\n"
		want := head + "---\n" + strings.Join(documents(t, values), "\n---\n") + "\n"
		want = strings.ReplaceAll(want, "managed-by: Helm", "managed-by: kubectl")
		path := filepath.Join(top, "deploy", "kubernetes", name)
		if *update {
			write(t, path, want, 0o644)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("deploy/kubernetes/%s is not up to date (%v): go -C deploy/packaging generate", name, err)
		}
	}
}
