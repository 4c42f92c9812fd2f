package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

// Credentials authenticate a connection. Every way to print them shows nothing
// of them (R27). Each field may be zero.
type Credentials struct {
	// Username is the ACL user. If zero, the Endpoint's.
	Username string
	// Password has at most 16 KiB: servers close a connection that sends more
	// before it is authenticated. Without both there is no authentication.
	Password string
	// Expires is when others will be needed, by this machine's clock. If zero,
	// never.
	Expires time.Time
}

// longestSecret is what servers take as one argument of a client that is not
// authenticated.
const longestSecret = 16 << 10

// check refuses what no server reads.
func (cr Credentials) check() error {
	switch {
	case len(cr.Username) > longestSecret:
		return fmt.Errorf("the user name has more than %d bytes", longestSecret)
	case len(cr.Password) > longestSecret:
		return fmt.Errorf("the password has more than %d bytes", longestSecret)
	}
	return nil
}

const veiled = "(credentials)"

// Format prints the same for every verb.
func (cr Credentials) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, veiled) }

// LogValue makes package slog log nothing of them.
func (cr Credentials) LogValue() slog.Value { return slog.StringValue(veiled) }

// MarshalText returns an error: encode what is wanted of them on purpose.
func (cr Credentials) MarshalText() ([]byte, error) {
	return nil, errors.New("conn: Credentials are not marshalled")
}

// ErrCredentials is in the chain of an error of Dial if Config.Credentials
// failed.
var ErrCredentials = errors.New("no credentials")

// login asks Config.Credentials, once in a Dial. The peer has taken the
// connection by then, so a dead node costs no token.
func (cfg *Config) login(ctx context.Context) error {
	if cfg.Credentials == nil || cfg.Password != "" {
		return nil
	}
	cr, err := cfg.Credentials(ctx)
	if err == nil {
		err = cr.check()
	}
	if err != nil {
		return credentialsError(ctx, err)
	}
	cfg.Credentials = nil
	cfg.Username, cfg.Password = cmp.Or(cr.Username, cfg.Username), cr.Password
	return nil
}

// credentialsError returns the error for an error of Config.Credentials. The
// end of a context within that function is not the end of the caller's.
func credentialsError(ctx context.Context, err error) error {
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case ended:
		return errtext.Wrap("credentials: "+errtext.Text(err), ErrCredentials)
	}
	return errtext.Wrap("credentials: "+errtext.Text(err), ErrCredentials, err)
}

// AuthRefused takes in that the node refused the credentials of AppendAuth, and
// the connection keeps those that it held: Follow asks servers with these. Any
// goroutine may call it, after the reply.
func (c *Conn) AuthRefused() {
	c.made()
	hidden := *c.hidden.Load()
	hidden.login, hidden.held = hidden.held, hidden.login
	c.hidden.Store(&hidden)
}

// AppendAuth appends the command that authenticates the connection anew, as
// another user perhaps. held is what the node accepted last. The reply is OK,
// or an error: the authentication is then what it was. The caller sends it like
// any other command, so what stands before it in the stream runs under the old
// one, and calls AppendAuth again after the reply only. From this call on,
// ServerError conceals both. Any goroutine may call it.
//
// From redis 7.2 on, the error is missing while replies to earlier commands are
// not written yet. A caller that does not wait for those must send a command
// behind it that tells by its reply (redis/redis#15640).
//
// It returns an error for credentials that no server reads. A zero Username
// means the default user here.
func (c *Conn) AppendAuth(dst []byte, held, next Credentials) ([]byte, error) {
	c.made()
	args := auth(next.Username, next.Password)
	if args == nil {
		return dst, errors.New("conn: there is neither a user name nor a password")
	}
	if err := next.check(); err != nil {
		return dst, fmt.Errorf("conn: %w", err)
	}
	c.hidden.Store(&secrets{
		login:  login{next.Password, next.Username},
		prefix: c.hidden.Load().prefix,
		held:   login{held.Password, held.Username},
	})
	return resp.AppendCommand(dst, args...), nil
}
