//go:build unix

package adapters

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// Manifests are the objects of a file of contrib/kubernetes.
type manifests struct {
	config  corev1.ConfigMap
	secret  corev1.Secret
	service corev1.Service
	set     appsv1.StatefulSet
	app     appsv1.Deployment
	budget  policyv1.PodDisruptionBudget
	network networkingv1.NetworkPolicy
}

// manifestsOf reads a file with the types of the API, which refuse a field that
// they do not know.
func manifestsOf(t *testing.T, name string) (m manifests) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../kubernetes", name))
	require.NoError(t, err)
	for _, part := range bytes.Split(text, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal(part, &kind))
		to := map[string]any{
			"v1 ConfigMap": &m.config, "v1 Secret": &m.secret, "v1 Service": &m.service, "apps/v1 StatefulSet": &m.set,
			"apps/v1 Deployment": &m.app, "policy/v1 PodDisruptionBudget": &m.budget, "networking.k8s.io/v1 NetworkPolicy": &m.network,
		}[kind.APIVersion+" "+kind.Kind]
		require.NotNil(t, to, "%+v", kind)
		require.NoError(t, yaml.UnmarshalStrict(part, to), "%+v", kind)
	}
	return m
}

// requireWhole requires that selectors find the pods, ports and volumes have
// their names, and mounts their volumes.
func requireWhole(t *testing.T, selector *metav1.LabelSelector, service corev1.Service, pods corev1.PodTemplateSpec) corev1.Container {
	t.Helper()
	require.Len(t, pods.Spec.Containers, 1)
	c := pods.Spec.Containers[0]
	for label, value := range selector.MatchLabels {
		require.Equal(t, value, pods.Labels[label])
	}
	require.Equal(t, selector.MatchLabels, service.Spec.Selector)
	ports, volumes := map[string]int32{}, map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, v := range pods.Spec.Volumes {
		volumes[v.Name] = true
	}
	require.Len(t, c.VolumeMounts, len(volumes))
	for _, m := range c.VolumeMounts {
		require.True(t, volumes[m.Name], m.Name)
	}
	for _, p := range service.Spec.Ports {
		if p.TargetPort.StrVal != "" {
			require.NotZero(t, ports[p.TargetPort.StrVal])
		} else {
			require.Equal(t, p.Port, ports[p.Name])
		}
	}
	return c
}

// requireConfined requires that a container that is taken over can do little.
func requireConfined(t *testing.T, pods corev1.PodTemplateSpec) {
	t.Helper()
	pod, own := pods.Spec.SecurityContext, pods.Spec.Containers[0].SecurityContext
	require.False(t, *pods.Spec.AutomountServiceAccountToken)
	require.True(t, *pod.RunAsNonRoot)
	require.NotZero(t, *pod.RunAsUser)
	require.NotZero(t, *pod.RunAsGroup)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SeccompProfile.Type)
	require.False(t, *own.AllowPrivilegeEscalation)
	require.True(t, *own.ReadOnlyRootFilesystem)
	require.Equal(t, corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, *own.Capabilities)
	resources := pods.Spec.Containers[0].Resources
	require.False(t, resources.Requests.Cpu().IsZero())
	require.False(t, resources.Requests.Memory().IsZero())
	require.Equal(t, resources.Requests.Memory(), resources.Limits.Memory(), "what is over its request is killed first")
}

// The masters are lone ones on three nodes, each under one name, and no update
// and no drain takes two of them within MaxTTL.
func TestMastersOnKubernetes(t *testing.T) {
	m := manifestsOf(t, "masters.yaml")
	pods := m.set.Spec.Template
	c := requireWhole(t, m.set.Spec.Selector, m.service, pods)
	requireConfined(t, pods)
	require.EqualValues(t, 3, *m.set.Spec.Replicas)
	require.Equal(t, m.service.Name, m.set.Spec.ServiceName)
	require.Equal(t, corev1.ClusterIPNone, m.service.Spec.ClusterIP, "one name leads to one server")
	require.True(t, m.service.Spec.PublishNotReadyAddresses, "a client can wait only for what it can reach")
	apart := pods.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	require.Len(t, apart, 1)
	require.Equal(t, corev1.LabelHostname, apart[0].TopologyKey)
	for _, selector := range []*metav1.LabelSelector{
		apart[0].LabelSelector, pods.Spec.TopologySpreadConstraints[0].LabelSelector, m.budget.Spec.Selector, &m.network.Spec.PodSelector,
	} {
		require.Equal(t, m.set.Spec.Selector, selector)
	}
	pause := time.Duration(c.ReadinessProbe.InitialDelaySeconds) * time.Second
	require.Greater(t, pause, redlock.DefaultMaxTTL+redlock.DefaultMaxTTL/100)
	require.Equal(t, 1, m.budget.Spec.MaxUnavailable.IntValue())
	require.Nil(t, c.LivenessProbe)
	memory := c.Resources.Limits[corev1.ResourceMemory]
	require.Greater(t, memory.Value(), int64(256<<20), "maxmemory")
	require.Equal(t, c.ReadinessProbe.TCPSocket.Port.StrVal, m.network.Spec.Ingress[0].Ports[0].Port.StrVal)
}

// A real server takes the configuration and the users, and the user can lock.
func TestMastersOfKubernetesGrantLocks(t *testing.T) {
	redistest.Require(t)
	m := manifestsOf(t, "masters.yaml")
	password := m.secret.StringData["password"]
	users := filepath.Join(t.TempDir(), "users.acl")
	// The tests' own questions are asked as the default user.
	rules := strings.Replace(m.secret.StringData["users.acl"], "user default off", "user default on nopass ~* &* +@all", 1)
	require.NotEqual(t, m.secret.StringData["users.acl"], rules)
	rules = forTheServerHere(t, rules)
	require.NoError(t, os.WriteFile(users, []byte(rules), 0o600))
	var args []string
	settings := map[string]string{}
	for line := range strings.Lines(m.config.Data["lock.conf"]) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		settings[name] = strings.Trim(value, `"`)
		if name != "port" && name != "aclfile" {
			args = append(args, "--"+name, settings[name])
		}
	}
	require.Equal(t, "noeviction", settings["maxmemory-policy"])
	require.Equal(t, "/etc/lock/users.acl", settings["aclfile"])
	servers, err := redistest.StartN(3, redistest.Options{Unix: true, Args: append(args, "--aclfile", users)})
	require.NoError(t, err)
	defer redistest.CloseAll(servers)
	config := redlock.Config{
		Nodes: redlock.Nodes(redistest.URLs(servers)...), Prefix: "lock:", Username: "redlock", Password: password, Fenced: true, MaxTTL: redlock.DefaultMaxTTL,
	}
	_, err = admin.Init(t.Context(), config)
	require.NoError(t, err)
	client, err := redlock.New(t.Context(), config)
	require.NoError(t, err)
	defer client.Close(t.Context())
	lock, err := client.TryAcquire(t.Context(), "r", 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
	for _, n := range client.Nodes() {
		require.Empty(t, n.Warnings)
	}
	for _, s := range servers {
		log, err := s.Do("ACL", "LOG")
		require.NoError(t, err)
		require.Empty(t, log)
	}
}

// forTheServerHere takes out of a rule what the server of this machine does not
// know.
func forTheServerHere(t *testing.T, rule string) string {
	t.Helper()
	server, err := redistest.Start(redistest.Options{Unix: true})
	require.NoError(t, err)
	defer server.Close()
	if _, err := server.Do("ACL", "SETUSER", "u", pure.RightToIntroduce); err == nil {
		return rule
	}
	t.Logf("NOT COVERED: the manifest's rule as it is: the server here does not know %s", pure.RightToIntroduce)
	return strings.Replace(rule, " "+pure.RightToIntroduce, "", 1)
}

// The candidates name the masters as these are called, show their password to
// no one, and can be updated though only one of them is ever ready.
func TestCandidatesOnKubernetes(t *testing.T) {
	masters, m := manifestsOf(t, "masters.yaml"), manifestsOf(t, "elect.yaml")
	pods := m.app.Spec.Template
	c := requireWhole(t, m.app.Spec.Selector, m.service, pods)
	requireConfined(t, pods)
	require.Equal(t, "client", pods.Labels["redlock"])
	require.Equal(t, pods.Labels["redlock"], masters.network.Spec.Ingress[0].From[0].PodSelector.MatchLabels["redlock"])
	said, err := os.ReadFile("../../docs/deploy.md")
	require.NoError(t, err)
	require.Contains(t, string(said), "label `redlock: client`", "of the pod that opens the deployment")
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	var names []string
	for i := range *masters.set.Spec.Replicas {
		names = append(names, fmt.Sprintf("redis://%s-%d.%s.locks.svc:%d", masters.set.Name, i, masters.service.Name, masters.service.Spec.Ports[0].Port))
	}
	require.Equal(t, strings.Join(names, ","), env["REDLOCK_NODES"])
	rules := masters.secret.StringData["users.acl"]
	require.Contains(t, rules, "~"+env["REDLOCK_PREFIX"]+"*")
	require.Contains(t, rules, "user "+env["REDLOCK_USER"]+" on >"+masters.secret.StringData["password"]+" ")

	update := m.app.Spec.Strategy.RollingUpdate
	require.Equal(t, []string{"100%", "100%"}, []string{update.MaxSurge.StrVal, update.MaxUnavailable.StrVal})
	flag := func(name string) string {
		for i, word := range c.Command {
			if word == name {
				return c.Command[i+1]
			}
		}
		return ""
	}
	probe := c.ReadinessProbe
	require.Equal(t, "/leader", probe.HTTPGet.Path)
	for _, p := range c.Ports {
		if p.Name == probe.HTTPGet.Port.StrVal {
			require.Equal(t, fmt.Sprintf(":%d", p.ContainerPort), flag("--listen"))
		}
	}
	kept := time.Duration(probe.PeriodSeconds*probe.FailureThreshold+probe.TimeoutSeconds) * time.Second
	killAfter, err := time.ParseDuration(flag("--kill-after"))
	require.NoError(t, err)
	require.Greater(t, killAfter, kept, "a yes is forgotten before another can lead")
	require.Equal(t, c.VolumeMounts[0].MountPath+"/password", flag("--password-file"))
	mode := *pods.Spec.Volumes[0].Secret.DefaultMode
	require.Zero(t, mode&0o007)
}
