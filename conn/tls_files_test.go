package conn

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mutual is a node that demands a certificate of the same authority.
type mutual struct {
	script
	certs *certificates // what it shows and trusts now
}

func (m *mutual) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	config := m.certs.server()
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, m.certs.pool
	m.mu.Lock()
	n := len(m.conns)
	m.conns = append(m.conns, nil)
	m.mu.Unlock()
	go m.serve(tls.Server(theirs, config), n)
	return ours, nil
}

// Certificates are replaced while the program runs: each Dial reads the files
// of the URL again, the authority's and this client's. They outrank what
// another tls.Config says, and that stays as it is, since other nodes share it.
func TestDialReadsTheFilesOfTheURLAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(c *certificates) {
		for name, pem := range map[string][]byte{"ca": c.caPEM, "cert": c.certPEM, "key": c.keyPEM} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem, 0o600))
		}
	}
	first, second := newCertificates(t), newCertificates(t)
	write(first)
	e, err := ParseURL("rediss://node.test:1?tls_ca_file=" + dir + "/ca&tls_cert_file=" + dir + "/cert&tls_key_file=" + dir + "/key")
	require.NoError(t, err)
	shared := &tls.Config{
		RootCAs: newCertificates(t).pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			t.Error("it outranks the files")
			return &first.pair, nil
		},
	}
	for name, e := range map[string]Endpoint{"alone": e, "beside another": e.Or(Endpoint{TLS: shared})} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				write(first)
				node := &mutual{certs: first}
				dial := func() error {
					c, err := Dial(t.Context(), Config{Endpoint: e, NetDial: node.dial})
					if err == nil {
						err = c.Close()
					}
					return err
				}
				require.NoError(t, dial())
				node.certs = second
				require.Error(t, dial(), "the node has another certificate")
				write(second)
				require.NoError(t, dial())

				require.NoError(t, os.Remove(filepath.Join(dir, "key")))
				dials := len(node.received())
				err := dial()
				assert.ErrorIs(t, err, os.ErrNotExist)
				assert.ErrorContains(t, err, "tls_key_file")
				assert.Len(t, node.received(), dials, "nothing was dialed in vain")
			})
		})
	}
	assert.Empty(t, shared.ServerName)
	assert.NotNil(t, shared.GetClientCertificate)
	assert.Empty(t, shared.Certificates)
}

// configTLS returns the configuration that Dial would use.
func configTLS(t testing.TB, cfg *Config) *tls.Config {
	t.Helper()
	config, err := cfg.configTLS()
	require.NoError(t, err)
	return config
}
