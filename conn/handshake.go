package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

// command is one command of the handshake with the check of its reply.
type command struct {
	name    string
	bytes   []byte
	check   func(v resp.Value) error // also for error replies
	prelude bool                     // it is one of Config.Prelude
}

// shakeHands sends the whole handshake in one write and reads its replies in
// order (R21). It leaves nothing pending.
func (c *Conn) shakeHands(ctx context.Context, cfg *Config, protocol int) error {
	commands := c.handshake(cfg, protocol)
	var p []byte
	for _, cmd := range commands {
		p = append(p, cmd.bytes...)
	}
	answered := 0
	var first error // the node's, if its first reply is an error
	err := c.exchange(ctx, "handshake", p, len(commands), func(i int, v resp.Value) error {
		answered++
		if i == 0 && v.IsError() {
			first = &StepError{Step: commands[0].name, Class: ClassOf(v), Err: c.ServerError(v)}
		}
		if err := c.checkReply(&commands[i], v); err != nil || cfg.Admit == nil || !introduced(commands, i) {
			return err
		}
		return cfg.Admit(&c.server)
	})
	var e *Error
	switch {
	case err == nil:
		return c.opened()
	case errors.As(err, &e) && (e.Op == "read" || e.Op == "write") && answered < len(commands):
		text := "connection ended before the answer to " + commands[answered].name + ": " + errtext.Text(e.Err)
		switch {
		case answered == 0:
			err = errtext.Wrap(text, ErrUnanswered, e.Err)
		case answered == 1 && first != nil:
			err = first // a farewell, as of protected mode, and not the answer
		default:
			err = errtext.Wrap(text, e.Err)
		}
		return &Error{Op: "handshake", Addr: c.addr, Err: err}
	}
	return err
}

// introduced reports whether command i is the last before the prelude. Then the
// node has said all about itself.
func introduced(commands []command, i int) bool {
	return !commands[i].prelude && (i+1 == len(commands) || commands[i+1].prelude)
}

// handshake returns the commands in their order: AUTH before all that needs it,
// and the prelude after SELECT.
func (c *Conn) handshake(cfg *Config, protocol int) []command {
	s := &c.server
	s.Protocol, s.Forbidden = protocol, slices.Clone(cfg.Omit)
	var list []command
	add := func(check func(v resp.Value) error, args ...string) {
		list = append(list, command{name: commandName(args), bytes: resp.AppendCommand(nil, args...), check: check})
	}
	// maybe adds a dispensable command of the handshake, unless the user
	// may not run it.
	maybe := func(read func(v resp.Value) error, args ...string) {
		if name := commandName(args); !slices.Contains(cfg.Omit, name) {
			add(s.unlessForbidden(name, tolerate(read)), args...)
		}
	}
	if protocol == 3 {
		add(s.helloReader(cfg.Protocol == 3), hello(cfg)...)
	} else if args := auth(cfg.Username, cfg.Password); args != nil {
		add(isOK, args...)
	}
	if cfg.ClientName != "" && (protocol != 3 || cfg.unnamed) {
		maybe(nil, "CLIENT", "SETNAME", cfg.ClientName)
	}
	if protocol != 3 {
		maybe(s.readClientID, "CLIENT", "ID")
	}
	// Unknown before 7.2.
	maybe(nil, "CLIENT", "SETINFO", "LIB-NAME", "redmux")
	maybe(nil, "CLIENT", "SETINFO", "LIB-VER", libVersion())
	if cfg.DB != 0 {
		add(isOK, "SELECT", strconv.Itoa(cfg.DB))
	}
	maybe(s.readClientInfo, "CLIENT", "INFO")
	for _, section := range []string{"server", "replication", "memory"} {
		add(tolerate(s.readInfo), "INFO", section)
	}
	for i, step := range cfg.Prelude {
		name := cmp.Or(step.Name, "prelude "+strconv.Itoa(i))
		list = append(list, command{name, step.Command, s.checkStep(name, step), true})
	}
	return list
}

// unlessForbidden returns a check that also notes a forbidden command.
func (s *Server) unlessForbidden(name string, check func(v resp.Value) error) func(v resp.Value) error {
	return func(v resp.Value) error {
		if ClassOf(v) == ClassNoPerm && !slices.Contains(s.Forbidden, name) {
			s.Forbidden = append(s.Forbidden, name)
		}
		return check(v)
	}
}

// checkStep returns the check of a step's reply. For an optional step, the
// check records whether the node accepted it.
func (s *Server) checkStep(name string, step Step) func(v resp.Value) error {
	check := step.Check
	if check == nil {
		check = isNoError
	}
	if !step.Optional {
		return check
	}
	return func(v resp.Value) error {
		err := check(v)
		if ClassOf(v).Passing() && err != nil {
			return err
		}
		s.tried(name, err == nil)
		return nil
	}
}

// tried notes whether the node accepted a step. Of several steps with one name,
// a single refusal decides.
func (s *Server) tried(name string, accepted bool) {
	switch {
	case slices.Contains(s.Refused, name):
	case !accepted:
		s.Refused = append(s.Refused, name)
		s.Accepted = slices.DeleteFunc(s.Accepted, func(other string) bool { return other == name })
	case !slices.Contains(s.Accepted, name):
		s.Accepted = append(s.Accepted, name)
	}
}

func hello(cfg *Config) []string {
	args := []string{"HELLO", "3"}
	if cfg.Username != "" || cfg.Password != "" {
		args = append(args, "AUTH", cmp.Or(cfg.Username, "default"), cfg.Password)
	}
	if cfg.ClientName != "" && !cfg.unnamed {
		args = append(args, "SETNAME", cfg.ClientName)
	}
	return args
}

func auth(username, password string) []string {
	switch {
	case username != "":
		return []string{"AUTH", username, password}
	case password != "":
		return []string{"AUTH", password} // the only form before 6.0
	}
	return nil
}

// commandName returns a command's name for errors, without arguments, which may
// be secret.
func commandName(args []string) string {
	if args[0] == "CLIENT" || args[0] == "INFO" {
		return args[0] + " " + args[1]
	}
	return args[0]
}

// lacksHello reports whether a handshake failed for want of HELLO or its
// version.
func lacksHello(err error) bool {
	var step *StepError
	return errors.As(err, &step) && step.Step == "HELLO" &&
		(step.Class == ClassUnknownCommand || step.Class == ClassNoProto)
}

// refusesName reports whether a handshake failed at SETNAME within HELLO,
// perhaps: the node refused HELLO with an error without a class.
func (cfg *Config) refusesName(err error) bool {
	var step *StepError
	return cfg.ClientName != "" && errors.As(err, &step) && step.Step == "HELLO" && step.Class == ClassOther
}

// checkReply returns a StepError for a bad reply.
func (c *Conn) checkReply(cmd *command, v resp.Value) error {
	class := ClassOf(v)
	err := cmd.check(v)
	if class == ClassNoAuth || class == ClassMaxClients {
		err = errRefused // every other command fails for this reason too
	}
	if err == nil {
		return nil
	}
	refusal := c.ServerError(v)
	switch {
	case err == errRefused:
		err = refusal
	case refusal != nil && !has[*resp.Error](err):
		// The Check's error lacks the node's own text.
		err = errtext.Wrap(errtext.Text(err)+" (the node says: "+errtext.Text(refusal)+")", err, refusal)
	}
	if (cmd.name == "HELLO" || cmd.prelude) && unfamiliar(v) && c.server.ID == 0 && c.server.RunID == "" {
		err = errtext.Wrap(errtext.Text(err)+"; "+errtext.Text(ErrProxy), err, ErrProxy)
	}
	return &StepError{Step: cmd.name, Class: class, Err: err}
}

// errRefused is returned by a check if the reply is an error. checkReply
// replaces it with that error.
var errRefused = errors.New("refused")

func isNoError(v resp.Value) error {
	if v.IsError() {
		return errRefused
	}
	return nil
}

func isOK(v resp.Value) error {
	switch {
	case v.IsError():
		return errRefused
	case !v.IsOK():
		return wrongType(v)
	}
	return nil
}

// tolerate returns the check of an optional command: an error, null, or a reply
// of another type than read takes leaves unknown what was asked (R22). If read
// is nil, nothing was asked, and no reply matters.
//
// At a node that cannot answer a question at the moment, the check still fails,
// and the dial is repeated. Otherwise the run id would stay unknown for the
// life of the connection.
func tolerate(read func(v resp.Value) error) func(v resp.Value) error {
	return func(v resp.Value) error {
		switch {
		case read == nil:
		case ClassOf(v).Passing():
			return errRefused
		case !v.IsError():
			_ = read(v)
		}
		return nil
	}
}

func wrongType(v resp.Value) error {
	return fmt.Errorf("%w: reply of type %v", ErrProtocol, v.Type())
}
