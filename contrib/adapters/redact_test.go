package adapters_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redmux/redmux/contrib/certmagiclock"
	"github.com/redmux/redmux/contrib/cronlock"
	"github.com/redmux/redmux/contrib/gocronlock"
	"github.com/redmux/redmux/contrib/httplock"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
)

// No exported type of the adapters that keeps a client, a hold or an election
// shows the masters' password when it is printed. A new type needs a specimen
// here.
func TestNoExportedTypeShowsASecret_R27(t *testing.T) {
	const password, prefix = "hunter2hunter2", "s3cret-pref1x:"
	d := redlocktest.New(t, 3, redlocktest.Password(password))
	tweak := func(c *redlock.Config) { c.Prefix, c.Fenced, c.Owner = prefix, true, "web-1" }
	config := d.Config()
	tweak(&config)
	_, err := admin.Init(t.Context(), config)
	require.NoError(t, err)
	client := d.Client(t, tweak)
	certificates, err := certmagiclock.New(client, certmagiclock.Options{})
	require.NoError(t, err)
	require.NoError(t, certificates.Lock(t.Context(), "example.com"))
	jobs, err := cronlock.New(client, cronlock.Options{})
	require.NoError(t, err)
	schedulers, err := gocronlock.NewLocker[gocron.Lock](client, gocronlock.Options{})
	require.NoError(t, err)
	run, err := schedulers.Lock(t.Context(), "report")
	require.NoError(t, err)
	elector, err := gocronlock.NewElector(t.Context(), client, "billing", gocronlock.Options{})
	require.NoError(t, err)
	defer elector.Close(context.Background())

	for folder, specimens := range map[string]map[string][]any{
		"certmagiclock": {"Locker": {certificates}, "Options": {certmagiclock.Options{TTL: time.Second}}},
		"cronlock": {
			"Locker": {jobs}, "Job": {jobs.Job(context.Background(), "report", func(context.Context) error { return nil })}, "Options": {cronlock.Options{}},
		},
		"gocronlock": {
			"Locker": {schedulers}, "Unlocker": {run}, "Elector": {elector}, "Options": {gocronlock.Options{}},
		},
		"httplock": {"Options": {httplock.Options{}}},
	} {
		names := redistest.ExportedTypes(t, "../"+folder)
		for name, all := range specimens {
			require.True(t, slices.Contains(names, name), name)
			for _, v := range all {
				redistest.Specimen{Value: v}.ShowsNone(t, password, prefix)
			}
		}
		require.Len(t, specimens, len(names), "each type has a specimen: %v", names)
	}
}
