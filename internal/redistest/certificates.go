package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are an authority made for one test, and a certificate that it
// signed, for servers and clients.
type Certificates struct {
	Pool          *x509.CertPool // of the authority
	Pair          tls.Certificate
	CA, Cert, Key []byte // PEM
}

// NewCertificates takes a millisecond: elliptic curves, not RSA. The
// certificate is for this machine's addresses and the names, or for localhost.
// It is made at run time because a key in the tree alarms scanners. It is valid
// by simulated clocks too, which start in the year 2000.
func NewCertificates(names ...string) (*Certificates, error) {
	if len(names) == 0 {
		names = []string{"localhost"}
	}
	from, to := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest CA"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redistest"}, NotBefore: from, NotAfter: to,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	c := &Certificates{Pool: x509.NewCertPool(), Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if c.CA, err = sign(authority, authority, signer.Public(), signer); err != nil {
		return nil, err
	}
	if c.Cert, err = sign(leaf, authority, key.Public(), signer); err != nil {
		return nil, err
	}
	c.Pool.AppendCertsFromPEM(c.CA)
	c.Pair, err = tls.X509KeyPair(c.Cert, c.Key)
	return c, err
}

// sign returns a certificate in PEM.
func sign(template, parent *x509.Certificate, public any, key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// Issue returns the certificate for a request, in PEM. It is valid for ninety
// days, and signed by an authority that is made for it.
func Issue(request *x509.CertificateRequest) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	return sign(template, template, request.PublicKey, key)
}

// Client is the configuration of a client that trusts the authority.
func (c *Certificates) Client() *tls.Config { return &tls.Config{RootCAs: c.Pool} }

// Server is the configuration of a server that shows the certificate.
func (c *Certificates) Server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c.Pair}}
}

// write puts the files where the server looks for them; nil writes nothing.
func (c *Certificates) write(dir string) error {
	if c == nil {
		return nil
	}
	for name, content := range map[string][]byte{"ca.crt": c.CA, "server.crt": c.Cert, "server.key": c.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
