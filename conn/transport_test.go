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
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// eachTLS runs a test over both versions, with a poller for one connection and
// with a poller for several.
func eachTLS(t *testing.T, test func(t *testing.T, version uint16, places int)) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, places := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/places=%d", tls.VersionName(version), places), func(t *testing.T) { test(t, version, places) })
		}
	}
}

// polledTLS is a connection that a poller has, and its scripted peer.
func polledTLS(t testing.TB, version uint16, places int) (*Poller, *Conn, *tlsPeer) {
	t.Helper()
	p := startPoller(t, places)
	c, peer := scripted(t, version)
	require.True(t, p.Add(c, places-1))
	return p, c, peer
}

// readUntil reads what events announce, until there are n bytes of text or the
// end.
func readUntil(t testing.TB, p *Poller, c *Conn, n int) (text []byte, err error) {
	t.Helper()
	for len(text) < n && err == nil {
		for range wait(t, p) {
			if err == nil {
				var some []byte
				some, err = readAll(c)
				text = append(text, some...)
			}
		}
	}
	return text, err
}

// glance lets the poller look once and reads what it finds, which may be
// nothing.
func glance(t testing.TB, p *Poller, c *Conn) (text []byte) {
	t.Helper()
	events, err := p.Look()
	require.NoError(t, err)
	for range events {
		some, err := readAll(c)
		require.NoError(t, err)
		text = append(text, some...)
	}
	return text
}

// A record may be split anywhere, and the poller may look between the pieces:
// no byte is lost, and none waits for an event that never comes.
func TestTLSRecordsSplitAnywhere_R16(t *testing.T) {
	eachTLS(t, func(t *testing.T, version uint16, places int) {
		p, c, peer := polledTLS(t, version, places)
		const want = "onesecond"
		for length, cut := 2, 1; cut < length; cut++ {
			for _, look := range []bool{false, true} {
				wire := slices.Concat(peer.data("+one\r\n"), peer.data("+sec"), peer.data("ond\r\n"))
				length = len(wire)
				var text []byte
				peer.send(t, wire[:cut])
				if look {
					eventually(t, func() bool { return unreadBytes(c) == cut })
					text = glance(t, p, c)
					require.False(t, c.Unread(), "the rest is still to come")
				}
				peer.send(t, wire[cut:])
				rest, err := readUntil(t, p, c, len(want)-len(text))
				require.NoError(t, err, "cut at %d", cut)
				require.Equal(t, want, string(text)+string(rest), "cut at %d", cut)
			}
		}
	})
}

// The same with values and records of many sizes, up to the largest, and many
// pieces. Some records are larger than the decoder's room, and some reads find
// many records.
func TestTLSStreamInPieces_R16(t *testing.T) {
	eachTLS(t, func(t *testing.T, version uint16, places int) {
		p, c, peer := polledTLS(t, version, places)
		for range 60 {
			var plain, wire, want []byte
			for range 1 + rand.IntN(200) {
				value := blob(4 + rand.IntN(300)) // with text, which is what readUntil counts
				plain, want = append(plain, value...), append(want, value[1:len(value)-2]...)
			}
			for most := 1 << (1 + rand.IntN(14)); len(plain) > 0; {
				n := min(len(plain), 1+rand.IntN(most))
				wire = append(wire, peer.data(string(plain[:n]))...)
				plain = plain[n:]
			}
			go func() {
				for most := 1 << (6 + rand.IntN(12)); len(wire) > 0; {
					n := min(len(wire), 1+rand.IntN(most))
					_, _ = peer.wire.Write(wire[:n])
					wire = wire[n:]
				}
			}()
			got, err := readUntil(t, p, c, len(want))
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), "%d bytes of %d", len(got), len(want))
			require.False(t, c.Unread())
		}
	})
}

// Fill says that there is more while TLS holds a byte: no event will.
func TestTLSFillTellsWhatTLSHolds(t *testing.T) {
	eachTLS(t, func(t *testing.T, version uint16, places int) {
		for _, beyond := range []int{-1, 0, 1, 2000} {
			p, c, peer := polledTLS(t, version, places)
			glance(t, p, c)
			room := len(c.reader.Space())
			wire := peer.data(string(blob(room + beyond)))
			peer.send(t, wire)
			eventually(t, func() bool { return unreadBytes(c) == len(wire) })
			more, err := p.Fill(c)
			require.NoError(t, err)
			assert.Equal(t, beyond >= 0, more, "%d bytes beyond the room", beyond)
			assert.Equal(t, more, c.Unread(), "what TLS holds is unread as well")
			_, err = readAll(c)
			require.NoError(t, err)
			assert.False(t, c.Unread())
		}
	})
}

// What the handshake's reads have taken from the socket makes no event: whole
// records, a part of one, and what is decrypted but not yet asked for.
func TestTLSLeftoversOfTheHandshake(t *testing.T) {
	eachTLS(t, func(t *testing.T, version uint16, places int) {
		for name, leave := range map[string]func(peer *tlsPeer) (before, after [][]byte){
			"records": func(peer *tlsPeer) (before, after [][]byte) {
				return [][]byte{peer.data("+first\r\n"), peer.data("+second\r\n"), peer.data("+third\r\n")}, nil
			},
			"a part": func(peer *tlsPeer) (before, after [][]byte) {
				first, second, third := peer.data("+first\r\n"), peer.data("+second\r\n"), peer.data("+third\r\n")
				return [][]byte{first, second[:9]}, [][]byte{second[9:], third}
			},
			"decrypted": func(peer *tlsPeer) (before, after [][]byte) {
				return [][]byte{peer.data("+" + strings.Repeat("x", 8<<10-10) + "\r\n+first\r\n+second\r\n+third\r\n")}, nil
			},
		} {
			t.Run(name, func(t *testing.T) {
				p := startPoller(t, places)
				c, peer := scripted(t, version)
				before, after := leave(peer)
				peer.send(t, before...)
				for {
					v, ok, err := c.Next()
					require.NoError(t, err)
					if ok && len(v.Bytes()) < 100 {
						require.Equal(t, "first", string(v.Bytes()))
						break
					}
					if !ok {
						require.NoError(t, c.Fill())
					}
				}
				require.True(t, p.Add(c, places-1))
				peer.send(t, after...)
				text, err := readUntil(t, p, c, len("secondthird"))
				require.NoError(t, err)
				assert.Equal(t, "secondthird", string(text))
			})
		}
	})
}

// A node may renew its keys and ask for ours to be renewed, at any time. The
// answer is written by the goroutine that reads, beside Send.
func TestTLSKeyUpdate(t *testing.T) {
	for _, places := range []int{1, 2} {
		p, c, peer := polledTLS(t, tls.VersionTLS13, places)
		const rounds, each = 50, 20
		var wg sync.WaitGroup
		var stop atomic.Bool
		wg.Go(func() { // Send, all the time
			for i := 0; !stop.Load(); i++ {
				assert.NoError(t, c.Send(fmt.Appendf(nil, "%d.", i)))
				time.Sleep(20 * time.Microsecond)
			}
			assert.NoError(t, c.Send([]byte("end")))
		})
		var renewed int
		var heard strings.Builder
		wg.Go(func() {
			for !strings.HasSuffix(heard.String(), "end") {
				kind, data, err := peer.receive()
				if !assert.NoError(t, err) {
					return
				}
				if kind == recordHandshake {
					assert.Equal(t, keyUpdateAlone, data)
					peer.in.renew(t)
					renewed++
					continue
				}
				heard.Write(data)
			}
		})
		for i := range rounds {
			ask := [][]byte{keyUpdateAlone, keyUpdateAsking}[i%2]
			cut := i % len(ask) // the message in two records, or in one
			if cut > 0 {
				peer.send(t, peer.record(recordHandshake, ask[:cut], 0))
			}
			peer.send(t, peer.record(recordHandshake, ask[cut:], 0))
			peer.out.renew(t)
			peer.send(t, peer.data("+renewed\r\n"))
			text, err := readUntil(t, p, c, len("renewed"))
			require.NoError(t, err)
			require.Equal(t, "renewed", string(text))
		}
		stop.Store(true)
		wg.Wait()
		assert.Equal(t, rounds/2, renewed)
		var want strings.Builder
		for i := range strings.Count(heard.String(), ".") {
			fmt.Fprintf(&want, "%d.", i)
		}
		assert.Equal(t, want.String()+"end", heard.String())
	}
}

// R26: answers to a node that asks for new keys and does not read wait in the
// backlog like all else, and not beyond its bound.
func TestTLSKeyUpdatesOfANodeThatDoesNotRead_R26(t *testing.T) {
	for _, full := range []bool{false, true} {
		c, peer := scripted(t, tls.VersionTLS13)
		require.NoError(t, c.link.(*stream).bottom.(*net.TCPConn).SetWriteBuffer(8<<10))
		p := startPoller(t, 1)
		require.True(t, p.Add(c, 0))
		glance(t, p, c)
		require.NoError(t, c.Send(make([]byte, 16<<20)))
		if full {
			require.Greater(t, c.output.pending.Load(), c.output.limit)
		} else {
			eventually(t, func() bool { return p.full.Load() == 1 }) // the writer waits
			c.output.limit = c.output.pending.Load() + 1
		}
		peer.send(t, peer.record(recordHandshake, keyUpdateAsking, 0))
		peer.out.renew(t)
		peer.send(t, peer.data("+renewed\r\n"))
		text, err := readUntil(t, p, c, len("renewed"))
		if full {
			require.ErrorIs(t, err, ErrStalled)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "renewed", string(text))
		require.ErrorIs(t, c.Send([]byte("more")), ErrStalled, "the answer filled the backlog")
	}
}

// Each end of TLS ends the connection, behind the last bytes, with a cause that
// says what happened.
func TestTLSEnds_R16(t *testing.T) {
	garbage := func(p *tlsPeer) []byte {
		b := p.data("+x\r\n")
		b[len(b)-1] ^= 1
		return b
	}
	for _, tt := range []struct {
		name string
		end  func(p *tlsPeer) []byte // what the peer sends
		fin  bool
		want any // an error, or a part of its text
		only uint16
	}{
		{"close_notify", func(p *tlsPeer) []byte { return p.record(recordAlert, closeNotify, 0) }, false, io.EOF, 0},
		{"close_notify and FIN", func(p *tlsPeer) []byte { return p.record(recordAlert, closeNotify, 0) }, true, io.EOF, 0},
		{"FIN alone", func(*tlsPeer) []byte { return nil }, true, io.EOF, 0},
		{"FIN within a record", func(p *tlsPeer) []byte { return p.data("+x\r\n")[:9] }, true, io.ErrUnexpectedEOF, 0},
		{"FIN within a header", func(p *tlsPeer) []byte { return p.data("+x\r\n")[:3] }, true, io.ErrUnexpectedEOF, 0},
		{"forged record", garbage, false, "bad record MAC", 0},
		{"plaintext", func(*tlsPeer) []byte { return []byte("+OK\r\n+OK\r\n") }, false, "record with version", 0},
		{"oversized record", func(*tlsPeer) []byte { return []byte{recordData, 3, 3, 0xff, 0xff} }, false, "oversized record", 0},
		{"alert", func(p *tlsPeer) []byte { return p.record(recordAlert, []byte{2, 80}, 0) }, false, "remote error: tls: internal error", 0},
		{"renegotiation", func(p *tlsPeer) []byte { return p.record(recordHandshake, helloRequest, 0) }, false, "no renegotiation", tls.VersionTLS12},
		{"unknown message", func(p *tlsPeer) []byte { return p.record(recordHandshake, []byte{99, 0, 0, 0}, 0) }, false, "unexpected message", tls.VersionTLS13},
		{"empty records without end", func(p *tlsPeer) []byte { return slices.Concat(emptyRecords(p, 40)...) }, false, "too many ignored records", 0},
	} {
		eachTLS(t, func(t *testing.T, version uint16, places int) {
			if tt.only != 0 && tt.only != version {
				return
			}
			for _, words := range []string{"", "last words"} {
				t.Run(tt.name+"/"+words, func(t *testing.T) {
					p, c, peer := polledTLS(t, version, places)
					var last []byte
					if words != "" {
						last = peer.data("+" + words + "\r\n")
					}
					peer.send(t, last, tt.end(peer))
					if tt.fin {
						require.NoError(t, peer.wire.Close())
					}
					text, err := readUntil(t, p, c, 1<<20)
					assert.Equal(t, words, string(text))
					assert.Equal(t, c.Err(), err, "the first cause counts")
					if text, ok := tt.want.(string); ok {
						assert.ErrorContains(t, err, text)
					} else {
						assert.ErrorIs(t, err, tt.want.(error))
					}
					assert.False(t, c.Unread())
					assert.Equal(t, err, c.Send([]byte("x")))
				})
			}
		})
	}
}

func emptyRecords(p *tlsPeer, n int) (records [][]byte) {
	for range n {
		records = append(records, p.record(recordData, nil, 15<<10))
	}
	return records
}

// R32: what one Fill takes from the socket is bounded, whatever the records
// hold: bytes one by one, or nothing but padding with a byte now and then so
// that crypto/tls goes on.
func TestTLSFloodIsReadInTurns_R32(t *testing.T) {
	for name, records := range map[string]func(p *tlsPeer) [][]byte{
		"bytes one by one": func(p *tlsPeer) (records [][]byte) {
			for range 20_000 {
				records = append(records, p.data("a"))
			}
			return records
		},
		"padding": func(p *tlsPeer) (records [][]byte) {
			for range 4 {
				records = append(append(records, emptyRecords(p, 15)...), p.data("a"))
			}
			return records
		},
	} {
		for _, places := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/places=%d", name, places), func(t *testing.T) {
				p, c, peer := polledTLS(t, tls.VersionTLS13, places)
				glance(t, p, c)
				wire := slices.Concat(append([][]byte{peer.data("+")}, append(records(peer), peer.data("\r\n"))...)...)
				go func() { _, _ = peer.wire.Write(wire) }()
				fills, text := 0, 0
				for text == 0 {
					for range wait(t, p) {
						for more := true; more; fills++ {
							before := unreadBytes(c)
							var err error
							more, err = p.Fill(c)
							require.NoError(t, err)
							// More may arrive meanwhile, so this finds a fault often enough.
							require.LessOrEqual(t, before-unreadBytes(c), ciphertextPerTurn)
							if v, ok, err := c.Next(); ok || err != nil {
								require.NoError(t, err)
								text = len(v.Bytes())
							}
						}
					}
				}
				assert.GreaterOrEqual(t, fills, len(wire)/ciphertextPerTurn)
			})
		}
	}
}

// Where the node may renegotiate, the handshake would wait within a read.
func TestTLSThatRenegotiatesIsNotPolled(t *testing.T) {
	ours, theirs := sockets(t, "tcp")
	certs := newCertificates(t)
	cfg := Config{Endpoint: Endpoint{Addr: "node.test:6379", TLS: certs.Client()}}
	cfg.TLS.Renegotiation = tls.RenegotiateFreelyAsClient
	go func() { _ = tls.Server(theirs, certs.Server()).Handshake() }()
	our, err := cfg.secure(t.Context(), ours, configTLS(t, &cfg))
	require.NoError(t, err)
	assert.False(t, startPoller(t, 1).Add(adopt(t, our, 0), 0))
}

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
	server := certs.Server()
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

// A command and its reply allocate what crypto/tls itself does for them, and no
// more.
func TestTLSAllocations(t *testing.T) {
	if redistest.Raceful {
		t.Skip("the race detector allocates")
	}
	command, reply := []byte("*1\r\n$4\r\nPING\r\n"), []byte("+OK\r\n")
	bare, peer := sockets(t, "tls")
	go answer(peer)
	room := make([]byte, 512)
	least := testing.AllocsPerRun(2000, func() {
		_, err := bare.Write(command)
		require.NoError(t, err)
		_, err = io.ReadFull(bare, room[:len(reply)])
		require.NoError(t, err)
	})
	require.NoError(t, bare.Close())
	for _, places := range []int{1, 2} {
		p := startPoller(t, places)
		ours, peer := sockets(t, "tls")
		go answer(peer)
		c := adopt(t, ours, 0)
		require.True(t, p.Add(c, 0))
		got := testing.AllocsPerRun(2000, func() { exchangeOnce(t, p, c, command) })
		t.Logf("%s, %d places: %v allocations, crypto/tls alone %v", tls.VersionName(ours.(*tls.Conn).ConnectionState().Version), places, got, least)
		assert.LessOrEqual(t, got, least)
	}
}
