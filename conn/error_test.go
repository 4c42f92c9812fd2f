package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// value decodes one reply.
func value(t testing.TB, wire string) resp.Value {
	t.Helper()
	r := resp.NewReader(resp.Limits{})
	_, err := r.Fill(strings.NewReader(wire))
	require.NoError(t, err)
	v, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok, wire)
	return v
}

func TestClassOf(t *testing.T) {
	for wire, want := range map[string]Class{
		"+OK\r\n":                           ClassNone,
		"+NOSCRIPT x\r\n":                   ClassNone,
		"$-1\r\n":                           ClassNone,
		"-NOSCRIPT No matching script.\r\n": ClassNoScript,
		"!21\r\nNOSCRIPT No matching.\r\n":  ClassNoScript,
		"-NOSCRIPT\r\n":                     ClassNoScript,
		"-NOSCRIPTS x\r\n":                  ClassOther,
		"-LOADING Redis is loading the dataset\r\n":                    ClassLoading,
		"-READONLY You can't write\r\n":                                ClassReadOnly,
		"-OOM command not allowed\r\n":                                 ClassOOM,
		"-MISCONF Redis is configured\r\n":                             ClassMisconf,
		"-NOREPLICAS Not enough good replicas\r\n":                     ClassNoReplicas,
		"-NOAUTH Authentication required.\r\n":                         ClassNoAuth,
		"-WRONGPASS invalid\r\n":                                       ClassWrongPass,
		"-NOPERM this user\r\n":                                        ClassNoPerm,
		"-MOVED 1 a:1\r\n":                                             ClassMoved,
		"-CLUSTERDOWN Hash slot not served\r\n":                        ClassClusterDown,
		"-BUSY Redis is busy\r\n":                                      ClassBusy,
		"-MASTERDOWN Link with MASTER is down\r\n":                     ClassMasterDown,
		"-NOPROTO unsupported protocol version\r\n":                    ClassNoProto,
		"-ERR max number of clients reached\r\n":                       ClassMaxClients,
		"-ERR max number of clients + cluster connections reached\r\n": ClassMaxClients,
		"-ERR unknown command 'DELEX', with args\r\n":                  ClassUnknownCommand,
		"-ERR unknown command `DELEX`, with args\r\n":                  ClassUnknownCommand,
		"-ERR unknown subcommand 'x'\r\n":                              ClassOther,
		"-ERR syntax error\r\n":                                        ClassOther,
		"-WRONGTYPE x\r\n":                                             ClassWrongType,
		"-max clients\r\n":                                             ClassOther,
		"-\r\n":                                                        ClassOther,

		// A script lacks a permission: of Redis 7.0, of older ones, of newer ones.
		"-ERR The user executing the script can't run this command or subcommand script: 1, on @user_script:1.\r\n": ClassNoPerm,
		"-ERR Error running script (call to f_1): @user_script:1: The user executing the script can't access x\r\n": ClassNoPerm,
		"-ERR ACL failure in script: User u has no permissions to run the 'zadd' command script: 1\r\n":             ClassNoPerm,
	} {
		v := value(t, wire)
		assert.Equal(t, want, ClassOf(v), wire)
		if !redistest.Raceful {
			assert.Zero(t, testing.AllocsPerRun(10, func() { ClassOf(v) }), wire)
		}
		if v.IsError() {
			assert.Equal(t, want, ErrorClass(fmt.Errorf("x: %w", serverError(v, secrets{}))), wire)
		}
	}
	assert.Equal(t, ClassNone, ErrorClass(io.EOF))
	assert.Equal(t, ClassNone, ErrorClass(nil))
	assert.Equal(t, "ERR", Class(200).String())
	assert.Equal(t, ClassNoPerm, ErrorClass(&StepError{Class: ClassNoPerm, Err: io.EOF}))
}

func TestScrub(t *testing.T) {
	long := strings.Repeat("x", 500)
	for _, c := range []struct{ message, password, want string }{
		{"ERR oops", "", "ERR oops"},
		{"ERR hunter2 and hunter2", "hunter2", "ERR *** and ***"},
		{"ERR unknown command `HELLO`, with args beginning with: `3` `AUTH` `u` `hunter2`", "other", "ERR unknown command `HELLO`"},
		{"ERR line\nnext\x1b[31m\xff", "", "ERR line?next?[31m?"},
		{"ERR p\xc3\xa4ss", "p\xc3\xa4ss", "ERR ***"},
		{"NOPERM User alice has no permissions to run the 'set' command", "", "NOPERM User *** has no permissions to run the 'set' command"},
		{"NOPERM User 'alice' may not access the 'lock:invoice 7' key", "", "NOPERM User '***' may not access the '*** 7' key"},
		{"NOPERM alice's malice, lock:a \"lock:b\" unlock:", "", "NOPERM ***'s malice, *** \"***\" unlock:"},
		{"alice lock:", "", "alice ***"},
		{"ERR no, alice.", "", "ERR no, ***"},
		{"ERR p??ss", "p\xc3\xa4ss", "ERR ***"},
		{"ERR " + long, "", "ERR " + long[:196]},
		{"ERR " + long[:190] + "hunter2 hunter2", "hunter2", "ERR " + long[:190] + "*** **"},
	} {
		assert.Equal(t, c.want, scrub(c.message, c.password, "alice", "lock:"), c.message)
	}
	assert.Nil(t, serverError(value(t, "+OK\r\n"), secrets{}))
}

// crypto/tls quotes the names of a certificate as they are, before any
// authority has vouched for them: what a master says there does not move the
// cursor of a terminal either.
func TestNamesOfACertificateArePrintableInErrors(t *testing.T) {
	const evil = "\x1b]0;evil\x07\x1b[2J\r\n.test"
	certs := newCertificates(t, evil)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", certs.Server())
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
		endpoint := Endpoint{Network: "tcp", Addr: listener.Addr().String(), TLS: &tls.Config{RootCAs: certs.Pool, ServerName: name}}
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

// No exported type shows a password, or a key of the prelude, when it is
// printed, whatever the verb and wherever the value is. A new type needs a
// specimen here.
func TestNoExportedTypeShowsASecret_R27(t *testing.T) {
	const user, password, key = "al1ce", "hunter2hunter2", "s3cret:key"
	network := redistest.NewNetwork()
	defer network.Close()
	node := redistest.NewNode(redistest.NodeConfig{User: user, Password: password})
	defer node.Close()
	node.Serve(network.Listen("node:6379"))
	config := Config{
		Endpoint: Endpoint{Addr: "node:6379", Username: user, Password: password}, NetDial: network.Dial, Conceal: key,
	}
	c, err := Dial(t.Context(), config)
	require.NoError(t, err)
	defer c.Close()
	wrong := config
	wrong.Password = "wr0ng" + password
	_, refused := Dial(t.Context(), wrong)
	var step *StepError
	require.ErrorAs(t, refused, &step)
	dialed := config
	dialed.NetDial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way") }
	_, failed := Dial(t.Context(), dialed)
	var e *Error
	require.ErrorAs(t, failed, &e)
	config.Prelude = []Step{{Command: []byte(key)}}
	_, err = c.AppendAuth(nil, Credentials{}, Credentials{Username: user, Password: password})
	require.NoError(t, err)

	seeds := Seeds{Addrs: []string{"a:1"}, Master: "m", Username: user, Password: password}
	specimens := map[string][]redistest.Specimen{
		"Conn":   {{Value: c}},
		"Config": {{Value: config, Open: true}, {Value: &config, Open: true}}, "Endpoint": {{Value: config.Endpoint, Open: true}},
		"Credentials": {{Value: Credentials{Username: user, Password: password}, Open: true}, {Value: &Credentials{Username: user, Password: password}, Open: true}},
		"Step":        {{Value: config.Prelude[0], Open: true}},
		"Error":       {{Value: e}, {Value: refused}}, "StepError": {{Value: step}}, "PeerError": {{Value: &PeerError{Err: errTest}}},
		"Class": {{Value: step.Class}}, "Outlook": {{Value: Passing}}, "Server": {{Value: c.Server()}}, "Event": {{Value: Event{}}}, "TLSFiles": {{Value: TLSFiles{}}}, "Failover": {{Value: Failover{}}}, "Standing": {{Value: Standing{}}},
		"Seeds":  {{Value: seeds, Open: true}, {Value: &seeds, Open: true}},
		"Poller": {{Value: &Poller{}}},
	}
	for _, name := range redistest.ExportedTypes(t, ".") {
		require.NotEmpty(t, specimens[name], "%s needs a specimen", name)
	}
	for _, all := range specimens {
		for _, s := range all {
			s.ShowsNone(t, user, password, key)
		}
	}
}

// A value that this package did not make, and a nil context, fail at the door:
// a call returns, or it panics with the package's name.
func TestZeroValuesAndNilContextsPanicWithThePackagesName(t *testing.T) {
	const prefix = "conn: "
	for _, v := range []any{
		(*Conn)(nil), new(Conn), (*Poller)(nil), new(Poller), new(Server), new(Config), Endpoint{}, Step{}, Class(0), Outlook(0),
		new(Error), new(StepError), new(PeerError), (*Error)(nil), (*StepError)(nil), (*PeerError)(nil), TLSFiles{}, Event{},
		Credentials{}, Seeds{}, Failover{}, Standing{},
	} {
		redistest.MethodsFailAtTheDoor(t, prefix, v, nil, false)
		redistest.MethodsFailAtTheDoor(t, prefix, v, t.Context(), false)
	}
	var none context.Context
	require.NotEmpty(t, redistest.FailsAtTheDoor(t, "Dial", prefix, func() { _, _ = Dial(none, Config{}) }), "Dial must panic")
	require.Equal(t, ClassNone, ClassOf(resp.Value{}))
	require.Equal(t, ClassNone, ErrorClass(nil))
	require.False(t, IsTLS(nil))
}
