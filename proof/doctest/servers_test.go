//go:build unix

package doctest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// configuration starts a server with a block of kind redis as its
// configuration, checks what the server understood, and takes a lock there,
// over TLS if configured. A block that names its path in the first line is kept
// there.
func (s *session) configuration(t *testing.T, where, text string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "redis.conf")
	if path, found := strings.CutPrefix(firstLine(text), "# /etc/redis/"); found {
		name = filepath.Join(s.etc, path)
	}
	text = s.local(t, text)
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))

	// What follows the include wins: this machine decides where the server
	// listens and keeps its files.
	settings := directives(text)
	options := redistest.Options{
		Password: settings["requirepass"],
		Args:     []string{"--include", name, "--bind", "127.0.0.1", "--port", "0", "--dir", t.TempDir()},
	}
	tlsPort := ""
	if settings["tls-port"] != "" {
		tlsPort = s.freePort(t)
		options.Args = append(options.Args, "--tls-port", tlsPort)
	}
	server, err := redistest.Start(options)
	require.NoError(t, err, where)
	defer server.Close()
	for _, setting := range []string{"bind", "port", "dir", "tls-port"} {
		delete(settings, setting)
	}
	for setting, want := range settings {
		reply, err := server.Do("CONFIG", "GET", setting)
		require.NoError(t, err, where)
		require.Len(t, reply, 2, "%s: the server knows no %s", where, setting)
		if !strings.HasSuffix(want, "mb") { // it answers in bytes
			require.Equal(t, want, reply.([]any)[1], "%s: %s", where, setting)
		}
	}
	url := server.URL()
	if tlsPort != "" {
		ca := neturl.QueryEscape(settings["tls-ca-cert-file"])
		url = "rediss://127.0.0.1:" + tlsPort + "?tls_ca_file=" + ca + "&tls_server_name=" + serverName(t, settings["tls-cert-file"])
	}
	lockOn(t, where, url)
}

// directives returns the settings of a configuration: one per line, a name and
// one value, which may be quoted.
func directives(text string) map[string]string {
	all := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		if name, value, found := strings.Cut(line, " "); found && !strings.HasPrefix(line, "#") {
			all[name] = strings.Trim(value, `"`)
		}
	}
	return all
}

// serverName returns the name that a certificate is for.
func serverName(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	require.NotEmpty(t, certificate.DNSNames)
	return certificate.DNSNames[0]
}

// lockOn takes and releases a lock, and checks that the server causes no
// warning.
func lockOn(t *testing.T, where, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	config := redlock.Config{Nodes: redlock.Nodes(url), NodeTimeout: time.Second}
	_, err := admin.Init(ctx, config)
	require.NoError(t, err, where)
	client, err := redlock.New(t.Context(), config)
	require.NoError(t, err, where)
	defer client.Close(ctx)
	lock, err := client.Acquire(ctx, "doc", 10*time.Second)
	require.NoError(t, err, where)
	require.NoError(t, lock.Release(ctx), where)
	require.Empty(t, client.Nodes()[0].Warnings, where)
}

// A fetched is a server that is available besides the usual one.
type fetched struct{ product, version, path string }

// everyServer lists the servers that make servers has fetched, or the usual one
// if there are none.
func everyServer(t *testing.T) (all []fetched) {
	t.Helper()
	list := exec.Command("sh", "testdata/fetch.sh", "list")
	list.Dir = top
	out, err := list.Output()
	if err == nil {
		for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
			if f := strings.Fields(line); len(f) == 5 {
				all = append(all, fetched{f[0], f[1], f[4]})
			}
		}
	}
	if len(all) == 0 {
		path, _ := redistest.Find()
		t.Log("NOT COVERED: rules for servers other than ", path, ", as make servers has fetched none")
		all = []fetched{{"", "", path}}
	}
	return all
}

// rule gives a block of kind acl to every server that accepts it, and a client
// uses a lock with it. The first line says which servers these are, as "# Redis
// 7.0" or "# Valkey 9.0 and newer". A block without reset adds to the last one
// with it.
func (s *session) rule(t *testing.T, where, text string) {
	t.Helper()
	var words []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "#") {
			words = append(words, strings.Fields(line)...)
		}
	}
	require.Greater(t, len(words), 3, where)
	if slices.Contains(words, "reset") {
		s.acl = words
	} else {
		require.NotEmpty(t, s.acl, where)
		words = slices.Concat(s.acl, words[3:])
	}
	user := words[2]
	takenBy := 0
	for _, f := range everyServer(t) {
		server, err := redistest.Start(redistest.Options{Path: f.path})
		require.NoError(t, err, where)
		func() {
			defer server.Close()
			if _, err := server.Do(words...); err != nil {
				// An unknown name is the only accepted reason, and then the
				// block names its servers.
				require.Contains(t, err.Error(), "Unknown command", "%s: %s %s", where, f.product, f.version)
				require.True(t, strings.HasPrefix(text, "# "), "%s: %s %s refuses it: %v", where, f.product, f.version, err)
				return
			}
			takenBy++
			lockAs(t, where+", "+f.product+" "+f.version, server, user, passwordIn(words), prefixIn(words), text)
		}()
	}
	if takenBy == 0 {
		t.Logf("NOT COVERED: %s, since none of the servers that are here takes it", where)
	}
}

func passwordIn(words []string) string {
	for _, w := range words {
		if password, found := strings.CutPrefix(w, ">"); found {
			return password
		}
	}
	return ""
}

func prefixIn(words []string) string {
	for _, w := range words {
		if prefix, found := strings.CutPrefix(w, "~"); found {
			return strings.TrimSuffix(prefix, "*")
		}
	}
	return ""
}

// lockAs does all that a user of locks does, and checks what the server
// refused.
func lockAs(t *testing.T, where string, server *redistest.Server, user, password, prefix, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	config := redlock.Config{
		Nodes: redlock.Nodes(server.URL()), Username: user, Password: password, Prefix: prefix,
		NodeTimeout: time.Second, // the machine may be busy
	}
	_, err := admin.Init(ctx, config)
	require.NoError(t, err, where)
	client, err := redlock.New(t.Context(), config)
	require.NoError(t, err, where)
	defer client.Close(ctx)
	require.NoError(t, client.Ready(ctx), where)
	lock, err := client.TryAcquire(ctx, "doc", 10*time.Second)
	require.NoError(t, err, where)
	_, err = client.TryAcquire(ctx, "doc", 10*time.Second)
	require.ErrorIs(t, err, redlock.ErrHeld, where)
	found, err := admin.Inspect(ctx, client, "doc")
	require.NoError(t, err, where)
	require.Equal(t, lock.Token().Fingerprint(), found.Holder, where)
	// The waiter needs the rights for tracking; it is woken by the release.
	waiting := make(chan error, 1)
	go func() {
		next, err := client.Acquire(ctx, "doc", 10*time.Second)
		waiting <- errors.Join(err, next.Release(ctx))
	}()
	lock, err = lock.Extend(ctx, 20*time.Second)
	require.NoError(t, err, where)
	require.NoError(t, lock.Release(ctx), where)
	require.NoError(t, <-waiting, where)
	for _, native := range []string{"DELEX", "DELIFEQ"} {
		if strings.Contains(text, "+"+strings.ToLower(native)) {
			require.Equal(t, native, client.Stats().ReleaseForm, where)
		}
	}
	require.Empty(t, client.Nodes()[0].Warnings, where)
	_, err = admin.Inspect(ctx, client, "doc")
	require.NoError(t, err, where)
	refused, err := server.Do("ACL", "LOG")
	require.NoError(t, err, where)
	for _, entry := range refused.([]any) {
		require.Regexp(t, harmless, entry, where)
	}
}

// harmless refusals are of commands that the library asks for and does not
// need. Native releases are used only where they are allowed.
var harmless = regexp.MustCompile(`object (client\|info|client\|setinfo|client|delex|delifeq)\b`)

// unit checks a systemd unit: with systemd-analyze where available, and always
// that it consists of sections and settings. A server at another path replaces
// the one that the unit names.
func (s *session) unit(t *testing.T, where, text string) {
	t.Helper()
	path, found := strings.CutPrefix(firstLine(text), "# /etc/systemd/system/")
	require.True(t, found, "%s: a unit begins with its path", where)
	section := regexp.MustCompile(`^\[[A-Z][a-z]+\]$`)
	setting := regexp.MustCompile(`^[A-Z][A-Za-z]+=.*$`)
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		ok := line == "" || strings.HasPrefix(line, "#") || section.MatchString(line) || setting.MatchString(line)
		require.True(t, ok, "%s: no line of a unit: %s", where, line)
	}
	name := filepath.Join(s.units, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	text = s.local(t, strings.ReplaceAll(text, "/usr/bin/redis-server", filepath.Join(s.bin, "redis-server")))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Logf("NOT COVERED: %s is read by a small parser only, as there is no systemd-analyze", where)
		return
	}
	// A drop-in is read with the unit that it is for, which stands before it.
	unit, _, _ := strings.Cut(path, ".d/")
	verify := exec.Command("systemd-analyze", "verify", "--man=no", "--generators=no", filepath.Join(s.units, unit))
	verify.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+s.units+":")
	out, err := verify.CombinedOutput()
	// It reads the machine's other units, too, and says what it thinks of
	// those.
	if strings.Contains(string(out), strings.TrimSuffix(unit, ".service")) || err != nil && len(out) == 0 {
		t.Errorf("%s: %v\n%s", where, err, out)
	}
}

// A compose file, as far as the documents use one.
type composeFile struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Build       string            `yaml:"build"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		DependsOn   []string          `yaml:"depends_on"`
		NetworkMode string            `yaml:"network_mode"`
		Init        bool              `yaml:"init"`
		Profiles    []string          `yaml:"profiles"`
		Restart     string            `yaml:"restart"`
		Ports       []string          `yaml:"ports"`
		Volumes     []string          `yaml:"volumes"`
		MemLimit    string            `yaml:"mem_limit"`
		Healthy     *struct {
			Test     []string `yaml:"test"`
			Interval string   `yaml:"interval"`
		} `yaml:"healthcheck"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
	X       any            `yaml:"x-master"`
}

// A file of alerts for Prometheus.
type alertFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []struct {
			Alert       string            `yaml:"alert"`
			Expr        string            `yaml:"expr"`
			For         string            `yaml:"for"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

// yaml reads a block strictly, and starts each server of a compose file with
// its own command.
func (s *session) yaml(t *testing.T, where, text string) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.KnownFields(true)
	if strings.Contains(text, "groups:") {
		var alerts alertFile
		require.NoError(t, decoder.Decode(&alerts), where)
		for _, group := range alerts.Groups {
			for _, rule := range group.Rules {
				require.NotEmpty(t, rule.Alert, where)
				require.NotEmpty(t, rule.Expr, where)
				require.NotEmpty(t, rule.Annotations["summary"], where)
				namesMetrics(t, where, rule.Expr)
			}
		}
		return
	}
	var compose composeFile
	require.NoError(t, decoder.Decode(&compose), where)
	require.NotEmpty(t, compose.Services, where)
	for name, service := range compose.Services {
		require.Equal(t, "redis-server", service.Command[0], "%s: %s", where, name)
		args := append(service.Command[1:len(service.Command):len(service.Command)], "--dir", t.TempDir())
		server, err := redistest.Start(redistest.Options{Args: args})
		require.NoError(t, err, "%s: %s", where, name)
		require.NoError(t, server.Close())
	}
}

// namesMetrics checks that an expression uses metrics of contrib/prometheus. It
// reads their names from the source, since that is a module of its own.
func namesMetrics(t *testing.T, where, expr string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(top, "contrib", "prometheus", "metrics.go"))
	require.NoError(t, err)
	asked := regexp.MustCompile(`redlock_[a-z_]+`).FindAllString(expr, -1)
	require.NotEmpty(t, asked, where)
	for _, metric := range asked {
		require.Contains(t, string(source), `"`+strings.TrimPrefix(metric, "redlock_")+`"`, "%s: there is no %s", where, metric)
	}
}
