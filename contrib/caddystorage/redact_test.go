package caddystorage

import (
	"context"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A storage shows no password when it is printed: neither of the masters as
// they are configured, nor of those that placeholders stand for.
func TestAStorageShowsNoPassword_R27(t *testing.T) {
	const password = "hunter2hunter2"
	t.Setenv("MASTER", "redis://:"+password+"@127.0.0.1:1")
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	hidden := &Storage{Masters: []string{"{env.MASTER}"}}
	require.NoError(t, hidden.Provision(ctx))
	defer func() { require.NoError(t, hidden.Cleanup()) }()
	redistest.Specimen{Value: hidden}.ShowsNone(t, password)
	kept, err := hidden.CertMagicStorage()
	require.NoError(t, err)
	redistest.Specimen{Value: kept, Open: true}.ShowsNone(t, password)
	configured := Storage{Masters: []string{"redis://:" + password + "@127.0.0.1:1"}}
	for _, v := range []any{configured, &configured} {
		redistest.Specimen{Value: v, Open: true}.PrintsNone(t, password)
	}
}

// A storage that Caddy has not provisioned has no locks to give.
func TestAStorageThatIsNotProvisionedIsRefused(t *testing.T) {
	for _, s := range []*Storage{nil, new(Storage)} {
		_, err := s.CertMagicStorage()
		require.ErrorContains(t, err, "caddystorage: ")
		require.NoError(t, s.Cleanup())
	}
}
