package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// reporting has the flag of commands that take, extend or release a lock.
type reporting struct {
	JSON bool `name:"json" help:"Print the outcome as JSON, even if there is no lock. The message on standard error and the exit code stay the same."`
}

// An outcome is the result of a command that takes, extends or releases a lock,
// for programs. Fields that do not apply are missing.
type outcome struct {
	At       time.Time `json:"at"`
	Resource string    `json:"resource"`
	// Resources are those of redlock run with --also.
	Resources []string `json:"resources,omitempty"`
	// Outcome is "acquired", "extended", "released" or, of redlock run, "done";
	// otherwise an outcomeWord.
	Outcome  string `json:"outcome"`
	ExitCode int    `json:"exit_code"`
	Error    string `json:"error,omitempty"`

	// The lock that was acquired or extended. Without a file, the token is
	// here; it is a secret (R27).
	Token      string     `json:"token,omitempty"`
	TokenFile  string     `json:"token_file,omitempty"`
	ValidityMS *float64   `json:"validity_ms,omitempty"`
	Until      *time.Time `json:"until,omitempty"` // by the clock of this machine
	Fence      uint64     `json:"fence,omitempty"` // its fencing number

	// The lock of another client.
	Holder      string   `json:"holder,omitempty"`       // its fingerprint
	HolderOwner string   `json:"holder_owner,omitempty"` // the label of its client
	HolderLabel string   `json:"holder_label,omitempty"` // that of the lock
	HolderTTLMS *float64 `json:"holder_ttl_ms,omitempty"`

	// The run of a command.
	CommandExitCode *int     `json:"command_exit_code,omitempty"` // as a shell has it
	WaitedMS        *float64 `json:"waited_ms,omitempty"`         // for the lock, even in vain
	RanMS           *float64 `json:"ran_ms,omitempty"`            // the command
}

// commandWords are the outcomes that only commands have, by exit code, beside
// "interrupted" and "failed".
var commandWords = map[int]string{
	exitTooLong: "max_hold", exitNotExecutable: "not_executable", exitNotFound: "not_found",
}

// outcomeWord returns the outcome of a command that returned an error: the
// library's word for what happened (R12), or one of its own.
func outcomeWord(err error) string {
	var interrupted *errInterrupted
	var own *exitError
	happened := eventOf(err)
	if errors.As(err, &own) {
		happened = eventWith(own.code)
	}
	switch {
	case errors.As(err, &interrupted):
		return "interrupted"
	case happened != nil:
		return redlock.Outcome(happened.err)
	}
	return cmp.Or(commandWords[exitCode(err)], "failed")
}

// eventWith returns the event that has an exit code, the first of several.
func eventWith(code int) *event {
	if i := slices.IndexFunc(events, func(e *event) bool { return e.code == code }); i >= 0 {
		return events[i]
	}
	return nil
}

// conclude sets the fields that follow from the error of a command. If err is
// nil, the outcome is success. It does not change an outcome that is already
// set.
func (o *outcome) conclude(err error, success string) {
	o.At, o.ExitCode = time.Now(), exitCode(err)
	switch {
	case o.Outcome != "":
	case err == nil:
		o.Outcome = success
	default:
		o.Outcome = outcomeWord(err)
	}
	if !silent(err) {
		o.Error = plain(message(err))
	}
}

// holder sets what is known of the lock of another client.
func (o *outcome) holder(found *admin.Inspection) {
	if found != nil && found.Holder != "" {
		o.Holder, o.HolderOwner, o.HolderLabel, o.HolderTTLMS = found.Holder, found.Owner, found.Label, ttlNumber(found.TTL, true)
	}
}

// report prints the outcome of a command that failed, if the flag is set, and
// returns its error. Errors of usage have no outcome.
func (r *reporting) report(p *process, o *outcome, err error) error {
	if err == nil || !r.JSON || exitCode(err) == exitUsage || isClosedPipe(err) {
		return err
	}
	o.conclude(err, "")
	return errors.Join(err, printJSON(p.stdout, o, true))
}

// succeed prints the outcome of a command that succeeded, if the flag is set.
func (r *reporting) succeed(p *process, o *outcome, word string) error {
	if !r.JSON {
		return nil
	}
	o.conclude(nil, word)
	return printJSON(p.stdout, o, true)
}

// deliver writes the token of a lock: to the sink, or as a part of the outcome.
func (r *reporting) deliver(p *process, sink *tokenSink, lock redlock.Lock, h handover, o *outcome, word string) error {
	if o.TokenFile = errtext.Name(sink.named); r.JSON && o.TokenFile == "" {
		o.Token = h.reveal()
	} else if err := sink.write(h); err != nil {
		return err
	} else if h.fence != 0 && !r.JSON && sink.named != "" {
		if err := write(p.stdout, strconv.FormatUint(h.fence, 10)+"\n"); err != nil {
			return err
		}
	}
	until := lock.Until().UTC()
	o.ValidityMS, o.Until, o.Fence = msNumber(lock.Validity()), &until, h.fence
	return r.succeed(p, o, word)
}

// outcomeFile is where redlock run writes its outcome: standard output and
// standard error are the command's own.
type outcomeFile struct{ file *os.File }

// openOutcome opens and empties the file before anything is locked: a file that
// cannot be written is an error early, and an old outcome is not taken for the
// new one.
func openOutcome(path string) (outcomeFile, error) {
	if path == "" {
		return outcomeFile{}, nil
	}
	file, err := openOwn(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err == nil && filepath.Dir(filepath.Clean(path)) != "/dev" && !strings.HasPrefix(filepath.Clean(path), "/dev/fd/") {
		if info, statErr := file.Stat(); statErr == nil && info.Mode().IsRegular() {
			err = file.Truncate(0)
		}
	}
	if err != nil {
		return outcomeFile{}, usagef("--outcome %s: %w", quoted(path), causeOf(err))
	}
	return outcomeFile{file}, nil
}

// write writes the outcome as one line, if there is a file.
func (f outcomeFile) write(o *outcome) error {
	if f.file == nil {
		return nil
	}
	line, err := json.Marshal(o)
	if err == nil {
		_, err = f.file.Write(append(line, '\n'))
	}
	if err = errors.Join(err, f.file.Close()); err != nil {
		return fmt.Errorf("the outcome could not be written: %w", err)
	}
	return nil
}

// causeOf returns the cause of an error of package os without the path, which
// may differ from the one that the user named.
func causeOf(err error) error {
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return failed.Err
	}
	if failed := (*os.LinkError)(nil); errors.As(err, &failed) {
		return failed.Err
	}
	return err
}
