//go:build unix

package doctest

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/redmux/redmux/internal/redistest"
)

// A compose file, as far as the documents use one.
type composeFile struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Build       string            `yaml:"build"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		DependsOn   []string          `yaml:"depends_on"`
		NetworkMode string            `yaml:"network_mode"`
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
