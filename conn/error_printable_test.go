package conn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crypto/tls quotes the names of a certificate as they are, before any
// authority has vouched for them: what a master says there does not move the
// cursor of a terminal either.
func TestNamesOfACertificateArePrintableInErrors(t *testing.T) {
	const evil = "\x1b]0;evil\x07\x1b[2J\r\n.test"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{evil}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(parsed)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = c.(*tls.Conn).Handshake(); _ = c.Close() }()
		}
	}()
	for _, name := range []string{"node.test", "127.0.0.1"} {
		endpoint := Endpoint{Network: "tcp", Addr: listener.Addr().String(), TLS: &tls.Config{RootCAs: trusted, ServerName: name}}
		_, err := Dial(t.Context(), Config{Endpoint: endpoint})
		var failed *Error
		require.ErrorAs(t, err, &failed)
		for _, text := range []string{err.Error(), failed.Cause()} {
			assert.Equal(t, errtext.Printable(text), text)
		}
		if name == "node.test" {
			assert.ErrorContains(t, err, "evil", "the name is said all the same")
		}
	}
}
