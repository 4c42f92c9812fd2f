//go:build linux && !redmux_portable

package conn

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tlsPeer is a node whose records a test makes itself: crypto/tls as a server
// sends none that are empty, renew keys, ask for a renegotiation or are forged.
// It takes its keys from the server's key log.
type tlsPeer struct {
	wire    net.Conn
	version uint16
	out, in tlsKeys
}

// tlsKeys are one direction's keys of TLS_AES_128_GCM_SHA256 in TLS 1.3, or of
// TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 in TLS 1.2.
type tlsKeys struct {
	secret []byte // of TLS 1.3
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

// Types of records, and the messages and alerts of these tests.
const (
	recordAlert, recordHandshake, recordData = 21, 22, 23
)

var (
	keyUpdateAlone  = []byte{24, 0, 0, 1, 0}
	keyUpdateAsking = []byte{24, 0, 0, 1, 1}
	helloRequest    = []byte{0, 0, 0, 0}
	closeNotify     = []byte{1, 0}
)

// scripted returns a connection over TLS and its peer.
func scripted(t testing.TB, version uint16) (*Conn, *tlsPeer) {
	t.Helper()
	ours, theirs := sockets(t, "tcp")
	certs := newCertificates(t)
	server := certs.server()
	server.SessionTicketsDisabled, server.MaxVersion = true, version
	server.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	var log bytes.Buffer
	server.KeyLogWriter = &log
	heard := &recorder{Conn: theirs}
	our, their := shakeTLS(t, certs, server, ours, heard)
	if suite := their.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 && suite != server.CipherSuites[0] {
		t.Skipf("no keys for %s", tls.CipherSuiteName(suite))
	}
	p := &tlsPeer{wire: theirs, version: version}
	if version == tls.VersionTLS13 {
		p.out, p.in = keysOf13(t, logged(t, &log, "SERVER_TRAFFIC_SECRET_0")), keysOf13(t, logged(t, &log, "CLIENT_TRAFFIC_SECRET_0"))
	} else {
		p.keysOf12(t, logged(t, &log, "CLIENT_RANDOM"), heard.read.Bytes(), heard.written.Bytes())
	}
	return adopt(t, our, 0), p
}

// recorder keeps what passes through it.
type recorder struct {
	net.Conn
	read, written bytes.Buffer
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.read.Write(p[:n])
	return n, err
}

func (r *recorder) Write(p []byte) (int, error) {
	r.written.Write(p)
	return r.Conn.Write(p)
}

// logged returns the secret with a label from a key log.
func logged(t testing.TB, log *bytes.Buffer, label string) []byte {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(log.Bytes()))
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == label {
			secret, err := hex.DecodeString(f[2])
			require.NoError(t, err)
			return secret
		}
	}
	t.Fatalf("no %s in the key log", label)
	return nil
}

func gcm(t testing.TB, key []byte) cipher.AEAD {
	t.Helper()
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	aead, err := cipher.NewGCM(block)
	require.NoError(t, err)
	return aead
}

// expandLabel is HKDF-Expand-Label of RFC 8446, 7.1.
func expandLabel(t testing.TB, secret []byte, label string, n int) []byte {
	t.Helper()
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(append(info, "tls13 "+label...), 0)
	out, err := hkdf.Expand(sha256.New, secret, string(info), n)
	require.NoError(t, err)
	return out
}

func keysOf13(t testing.TB, secret []byte) tlsKeys {
	t.Helper()
	return tlsKeys{secret: secret, aead: gcm(t, expandLabel(t, secret, "key", 16)), iv: expandLabel(t, secret, "iv", 12)}
}

// renew does what a KeyUpdate announces (RFC 8446, 7.2).
func (k *tlsKeys) renew(t testing.TB) {
	t.Helper()
	*k = keysOf13(t, expandLabel(t, k.secret, "traffic upd", 32))
}

// keysOf12 derives the keys of RFC 5246, 6.3. Both Finished were record 0.
func (p *tlsPeer) keysOf12(t testing.TB, master, fromClient, fromServer []byte) {
	t.Helper()
	const random = recordHeader + 4 + 2 // within the first hello
	seed := append([]byte("key expansion"), fromServer[random:random+32]...)
	seed = append(seed, fromClient[random:random+32]...)
	sum := func(b []byte) []byte {
		h := hmac.New(sha256.New, master)
		h.Write(b)
		return h.Sum(nil)
	}
	var block []byte
	for a := sum(seed); len(block) < 40; a = sum(a) {
		block = append(block, sum(append(bytes.Clone(a), seed...))...)
	}
	p.in = tlsKeys{aead: gcm(t, block[:16]), iv: block[32:36], seq: 1}
	p.out = tlsKeys{aead: gcm(t, block[16:32]), iv: block[36:40], seq: 1}
}

// nonce13 returns the next record's nonce.
func (k *tlsKeys) nonce13() []byte {
	nonce := bytes.Clone(k.iv)
	for i, b := range binary.BigEndian.AppendUint64(nil, k.seq) {
		nonce[len(nonce)-8+i] ^= b
	}
	k.seq++
	return nonce
}

// record returns an encrypted record, in TLS 1.3 with so many bytes of padding.
func (p *tlsPeer) record(kind byte, data []byte, padding int) []byte {
	k := &p.out
	if p.version == tls.VersionTLS13 {
		inner := append(append(bytes.Clone(data), kind), make([]byte, padding)...)
		head := binary.BigEndian.AppendUint16([]byte{recordData, 3, 3}, uint16(len(inner)+16))
		return k.aead.Seal(head, k.nonce13(), inner, head)
	}
	explicit := binary.BigEndian.AppendUint64(nil, k.seq)
	k.seq++
	extra := binary.BigEndian.AppendUint16(append(bytes.Clone(explicit), kind, 3, 3), uint16(len(data)))
	head := binary.BigEndian.AppendUint16([]byte{kind, 3, 3}, uint16(8+len(data)+16))
	return k.aead.Seal(append(head, explicit...), append(bytes.Clone(k.iv), explicit...), data, extra)
}

// data returns a record with so many bytes of the stream.
func (p *tlsPeer) data(s string) []byte { return p.record(recordData, []byte(s), 0) }

// send writes records, all at once.
func (p *tlsPeer) send(t testing.TB, records ...[]byte) {
	t.Helper()
	_, err := p.wire.Write(bytes.Join(records, nil))
	require.NoError(t, err)
}

// receive reads one record of TLS 1.3 and returns its type and contents.
func (p *tlsPeer) receive() (kind byte, data []byte, err error) {
	head := make([]byte, recordHeader)
	if _, err := io.ReadFull(p.wire, head); err != nil {
		return 0, nil, err
	}
	sealed := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, err := io.ReadFull(p.wire, sealed); err != nil {
		return 0, nil, err
	}
	inner, err := p.in.aead.Open(nil, p.in.nonce13(), sealed, head)
	if err != nil {
		return 0, nil, err
	}
	inner = bytes.TrimRight(inner, "\x00")
	return inner[len(inner)-1], inner[:len(inner)-1], nil
}
