package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

// command is one command of the handshake with the judgement of its reply.
type command struct {
	name    string
	prelude int // index, or -1
	bytes   []byte
	judge   func(v resp.Value) error // errors are for it to judge, too
}

// shakeHands sends the whole handshake in one write, reads its replies in order,
// and leaves nothing pending (R21).
func (c *Conn) shakeHands(ctx context.Context, cfg *Config, protocol int) error {
	commands := c.handshake(cfg, protocol)
	var p []byte
	for _, cmd := range commands {
		p = append(p, cmd.bytes...)
	}
	answered := 0
	err := c.exchange(ctx, "handshake", p, len(commands), func(i int, v resp.Value) error {
		answered++
		if err := c.judge(&commands[i], v); err != nil || cfg.Admit == nil || !introduced(commands, i) {
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
		if answered == 0 {
			err = errtext.Wrap(text, ErrUnanswered, e.Err)
		} else {
			err = errtext.Wrap(text, e.Err)
		}
		return &Error{Op: "handshake", Addr: c.addr, Err: err}
	}
	return err
}

// introduced reports that with the reply to command i the node has said all that it says of itself.
func introduced(commands []command, i int) bool {
	return commands[i].prelude < 0 && (i+1 == len(commands) || commands[i+1].prelude >= 0)
}

// handshake lists the commands. The order matters: nobody is asked anything
// before AUTH, and the prelude runs in its database.
func (c *Conn) handshake(cfg *Config, protocol int) []command {
	s := &c.server
	s.Protocol = protocol
	var list []command
	add := func(judge func(v resp.Value) error, args ...string) {
		list = append(list, command{commandName(args), -1, resp.AppendCommand(nil, args...), judge})
	}
	if protocol == 3 {
		add(s.readHello, hello(cfg)...)
	} else {
		if args := auth(cfg); args != nil {
			add(isOK, args...)
		}
		if cfg.ClientName != "" {
			add(tolerate(nil), "CLIENT", "SETNAME", cfg.ClientName)
		}
		add(tolerate(s.readClientID), "CLIENT", "ID")
	}
	version := cfg.LibVersion
	if version == "" {
		version = "dev"
	}
	// Unknown before 7.2, and a nicety after it.
	add(tolerate(nil), "CLIENT", "SETINFO", "LIB-NAME", "redmux")
	add(tolerate(nil), "CLIENT", "SETINFO", "LIB-VER", version)
	if cfg.DB != 0 {
		add(isOK, "SELECT", strconv.Itoa(cfg.DB))
	}
	add(tolerate(s.readClientInfo), "CLIENT", "INFO")
	for _, section := range []string{"server", "replication", "memory"} {
		add(tolerate(s.readInfo), "INFO", section)
	}
	for i, step := range cfg.Prelude {
		name := cmp.Or(step.Name, "prelude "+strconv.Itoa(i))
		list = append(list, command{name, i, step.Command, s.checkStep(name, step)})
	}
	return list
}

// checkStep returns the check of a step's reply. If the step is optional, the check
// notes whether the node accepted it.
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
		switch {
		case err == nil:
			s.Accepted = append(s.Accepted, name)
		case ClassOf(v).Passing():
			return err
		default:
			s.Refused = append(s.Refused, name)
		}
		return nil
	}
}

func hello(cfg *Config) []string {
	args := []string{"HELLO", "3"}
	if cfg.Username != "" || cfg.Password != "" {
		user := cfg.Username
		if user == "" {
			user = "default"
		}
		args = append(args, "AUTH", user, cfg.Password)
	}
	if cfg.ClientName != "" {
		args = append(args, "SETNAME", cfg.ClientName)
	}
	return args
}

func auth(cfg *Config) []string {
	switch {
	case cfg.Username != "":
		return []string{"AUTH", cfg.Username, cfg.Password}
	case cfg.Password != "":
		return []string{"AUTH", cfg.Password} // the only form before 6.0
	}
	return nil
}

// commandName names a command in errors: without arguments, which may be secret.
func commandName(args []string) string {
	if args[0] == "CLIENT" || args[0] == "INFO" {
		return args[0] + " " + args[1]
	}
	return args[0]
}

// lacksHello reports whether a handshake failed because the node does not know
// HELLO or not its version.
func lacksHello(err error) bool {
	var step *StepError
	return errors.As(err, &step) && step.Step == "HELLO" &&
		(step.Class == ClassUnknownCommand || step.Class == ClassNoProto)
}

// judge turns a bad reply into a StepError.
func (c *Conn) judge(cmd *command, v resp.Value) error {
	class := ClassOf(v)
	err := cmd.judge(v)
	if class == ClassNoAuth || class == ClassMaxClients {
		err = errRefused // whatever the command was: no other will fare better
	}
	if err == nil {
		return nil
	}
	refusal := c.ServerError(v)
	var known *resp.Error
	switch {
	case err == errRefused:
		err = refusal
	case refusal != nil && !errors.As(err, &known):
		// A Check that tells less than the node did.
		err = errtext.Wrap(errtext.Text(err)+" (the node says: "+errtext.Text(refusal)+")", err, refusal)
	}
	if (cmd.name == "HELLO" || cmd.prelude >= 0) && unfamiliar(v) && c.server.ID == 0 && c.server.RunID == "" {
		err = errtext.Wrap(errtext.Text(err)+"; "+errtext.Text(ErrProxy), err, ErrProxy) // it has not told what it is
	}
	return &StepError{Step: cmd.name, Prelude: cmd.prelude, Class: class, Err: err}
}

// errRefused is a judgement: the reply is an error, which says all there is to say.
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

// tolerate makes a command's errors harmless: what may not be asked stays unknown
// (R22). A reply that is no error is for read to judge; nil wants OK.
//
// A node that cannot answer just now is another matter. Its run id would stay
// unknown for the life of the connection, so such a dial fails and is repeated.
func tolerate(read func(v resp.Value) error) func(v resp.Value) error {
	if read == nil {
		read = isOK
	}
	return func(v resp.Value) error {
		switch {
		case !v.IsError():
			return read(v)
		case ClassOf(v).Passing():
			return errRefused
		}
		return nil
	}
}

func wrongType(v resp.Value) error {
	return fmt.Errorf("%w: reply of type %v", ErrProtocol, v.Type())
}
