package conn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// giving returns a Config.Credentials that counts its calls.
func giving(calls *int, cr Credentials, err error) func(context.Context) (Credentials, error) {
	return func(context.Context) (Credentials, error) {
		*calls++
		return cr, err
	}
}

// Each Dial asks once, however many connections it makes, and the endpoint has
// what the answer lacks.
func TestDialAsksForCredentialsOnce(t *testing.T) {
	noHello := map[string]string{"HELLO": "-ERR unknown command 'HELLO'\r\n", "CLIENT INFO": text2(""), "INFO server": text2(""),
		"INFO replication": text2(""), "INFO memory": text2("")}
	for name, c := range map[string]struct {
		endpoint Endpoint
		answer   Credentials
		answers  map[string]string
		calls    int
		want     string
	}{
		"in HELLO":                       {Endpoint{}, Credentials{Username: "u", Password: "p"}, nil, 1, "HELLO 3 AUTH u p"},
		"for the default user":           {Endpoint{}, Credentials{Password: "p"}, nil, 1, "HELLO 3 AUTH default p"},
		"the endpoint's user":            {Endpoint{Username: "v"}, Credentials{Password: "p"}, nil, 1, "HELLO 3 AUTH v p"},
		"another user":                   {Endpoint{Username: "v"}, Credentials{Username: "u", Password: "p"}, nil, 1, "HELLO 3 AUTH u p"},
		"none at all":                    {Endpoint{}, Credentials{}, nil, 1, "HELLO 3"},
		"expired by our clock":           {Endpoint{}, Credentials{Password: "p", Expires: time.Unix(1, 0)}, nil, 1, "HELLO 3 AUTH default p"},
		"without HELLO, over two":        {Endpoint{}, Credentials{Username: "u", Password: "p"}, noHello, 1, "AUTH u p"},
		"before users, over two":         {Endpoint{}, Credentials{Password: "p"}, noHello, 1, "AUTH p"},
		"none at all, over two":          {Endpoint{}, Credentials{}, noHello, 1, "CLIENT ID"},
		"beside the endpoint's password": {Endpoint{Username: "v", Password: "q"}, Credentials{Password: "p"}, nil, 0, "HELLO 3 AUTH v q"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			node := &script{answers: c.answers}
			node.connect(t, Config{Endpoint: c.endpoint, Credentials: giving(&calls, c.answer, nil)})
			conns := node.received()
			first, _, _ := strings.Cut(conns[len(conns)-1], "\n")
			assert.Equal(t, c.want, first)
			assert.Equal(t, c.calls, calls)
		})
	}
}

// What the function fails with is no word of the node's, and no end of the
// caller's context (R31).
func TestErrorsOfTheCredentialsFunction(t *testing.T) {
	long := strings.Repeat("x", longestSecret+1)
	for name, c := range map[string]struct {
		answer  Credentials
		err     error
		text    string
		is      error
		outlook Outlook
	}{
		"an error":           {err: errTest, text: "credentials: " + errTest.Error(), is: errTest, outlook: Brief},
		"a missing file":     {err: &os.PathError{Op: "open", Path: "/x", Err: os.ErrNotExist}, text: "credentials: open /x", is: os.ErrNotExist, outlook: Brief},
		"another Redis":      {err: &resp.Error{Message: "WRONGPASS no"}, text: "credentials: WRONGPASS no", is: ErrCredentials, outlook: Brief},
		"a lost issuer":      {err: io.ErrUnexpectedEOF, text: "unexpected EOF", is: io.ErrUnexpectedEOF, outlook: Passing},
		"a timeout of its":   {err: context.DeadlineExceeded, text: "deadline exceeded", is: ErrCredentials, outlook: Brief},
		"a cancel of its":    {err: fmt.Errorf("vault: %w", context.Canceled), text: "vault: context canceled", is: ErrCredentials, outlook: Brief},
		"too long a name":    {answer: Credentials{Username: long}, text: "user name has more than 16384 bytes", is: ErrCredentials, outlook: Brief},
		"too long a secret":  {answer: Credentials{Password: long}, text: "password has more than 16384 bytes", is: ErrCredentials, outlook: Brief},
		"a line in its text": {err: errors.New("a\nb"), text: "credentials: a?b", is: ErrCredentials, outlook: Brief},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			node := &script{}
			_, err := Dial(t.Context(), Config{Endpoint: Endpoint{Addr: "a:1"}, NetDial: node.dial, Credentials: giving(&calls, c.answer, c.err)})
			require.ErrorContains(t, err, c.text)
			assert.ErrorIs(t, err, ErrCredentials)
			assert.ErrorIs(t, err, c.is)
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			assert.NotErrorIs(t, err, context.Canceled)
			assert.Equal(t, ClassNone, ErrorClass(err), "the node has said nothing")
			assert.Equal(t, c.outlook, OutlookOf(err))
			assert.Equal(t, 1, calls)
			assert.Equal(t, []string{""}, node.received(), "and got nothing")
		})
	}
	_, err := Dial(t.Context(), Config{Endpoint: Endpoint{Addr: "a:1", Password: long}})
	assert.ErrorContains(t, err, "password has more than")
}

// The function's time is part of the dial's, and a dead node costs no call.
func TestCredentialsFunctionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &script{}
		cfg := Config{Endpoint: Endpoint{Addr: "a:1", DialTimeout: 3 * time.Second}, NetDial: node.dial}
		cfg.Credentials = func(ctx context.Context) (Credentials, error) {
			<-ctx.Done()
			return Credentials{}, ctx.Err()
		}
		begun := time.Now()
		_, err := Dial(t.Context(), cfg)
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(begun))
		assert.Equal(t, Passing, OutlookOf(err))

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errTest) })
		_, err = Dial(ctx, cfg)
		assert.ErrorIs(t, err, errTest)

		calls := 0
		cfg.Credentials = giving(&calls, Credentials{}, nil)
		cfg.NetDial = func(context.Context, string, string) (net.Conn, error) { return nil, errTest }
		_, err = Dial(t.Context(), cfg)
		assert.ErrorIs(t, err, errTest)
		assert.Zero(t, calls)
	})
}

// A live connection to a real server takes other credentials between other
// commands. A refused AUTH changes nothing, and no error shows any of them.
func TestAppendAuthOnALiveConnection(t *testing.T) {
	node := start(t, redistest.Options{TCP: true, Password: "hunter2"})
	admin := connect(t, node.URL())
	for _, user := range []string{"ann", "bob"} {
		assert.Equal(t, "OK", ask(t, admin, "ACL", "SETUSER", user, "on", ">"+user+"-secret", "~*", "+@all"))
	}
	for _, protocol := range []int{2, 3} {
		c := connect(t, "redis://ann:ann-secret@"+node.TCPAddr(), func(cfg *Config) { cfg.Protocol = protocol })
		held := Credentials{Username: "ann", Password: "ann-secret"}
		send := func(p []byte, cr Credentials, n int) (replies []string) {
			p, err := c.AppendAuth(p, held, cr)
			require.NoError(t, err)
			p = resp.AppendCommand(p, "ACL", "WHOAMI")
			require.NoError(t, c.Exchange(t.Context(), p, n, func(_ int, v resp.Value) error {
				replies = append(replies, ClassOf(v).String()+string(bytes.TrimPrefix(v.Bytes(), []byte("WRONGPASS"))))
				return nil
			}))
			return replies
		}
		stream := func(cr Credentials) []string {
			replies := send(resp.AppendCommand(nil, "ACL", "WHOAMI"), cr, 3)
			held = cr
			return replies
		}
		assert.Equal(t, []string{"ann", "OK", "bob"}, stream(Credentials{Username: "bob", Password: "bob-secret"}))
		assert.Equal(t, []string{"bob", "OK", "default"}, stream(Credentials{Password: "hunter2"}))
		for range 5 { // what is held stays hidden, however often others are tried
			refused := send(nil, Credentials{Username: "bob", Password: "wrong"}, 2)
			assert.Contains(t, refused[0], "WRONGPASS")
			assert.Equal(t, "default", refused[1])
		}
		for _, said := range []string{"wrong", "hunter2", "'bob'"} {
			assert.NotContains(t, c.ServerError(value(t, "-ERR he said "+said+"\r\n")).Error(), strings.Trim(said, "'"), "R27")
		}
	}
	c := connect(t, node.URL())
	_, err := c.AppendAuth(nil, Credentials{}, Credentials{Password: strings.Repeat("x", longestSecret+1)})
	assert.ErrorContains(t, err, "more than")
	_, err = c.AppendAuth(nil, Credentials{}, Credentials{})
	assert.ErrorContains(t, err, "neither")
	assert.Equal(t, "PONG", ask(t, c, "PING"))
}

// A name or a password as long as a server takes it before the authentication
// is sent, and a longer one is not: the server would close the connection.
func TestLongestSecretIsTheServers(t *testing.T) {
	node := start(t, redistest.Options{TCP: true, Password: "hunter2"})
	cfg := Config{Endpoint: Endpoint{Addr: node.TCPAddr(), Password: strings.Repeat("x", longestSecret)}}
	_, err := Dial(t.Context(), cfg)
	assert.Equal(t, ClassWrongPass, ErrorClass(err), "%v", err)
}

// Marshalled and logged, credentials show nothing.
func TestCredentialsShowNothing_R27(t *testing.T) {
	cr := Credentials{Username: "al1ce", Password: "hunter2"}
	_, err := json.Marshal(map[string]any{"c": cr})
	assert.ErrorContains(t, err, "not marshalled")
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "c", cr, "p", &cr)
	shown := log.String() + fmt.Sprintf("%v %+v %#v %s %q %d %x", cr, &cr, cr, cr, cr, cr, cr)
	assert.NotContains(t, shown, "hunter2")
	assert.NotContains(t, shown, "al1ce")
}
