package redlock_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// The faults of a server that still answers, or only hangs, and how to cause
// and end them under a live client. All connections of the test itself are
// counted, because the remaining ones are the client's (R26).

// A ward is the servers under test, and what the switchers need to remember.
type ward struct {
	*fleet
	asked   [5]int                  // connections of the test's own
	names   []string                // keys of the locks that the test holds or will ask for
	sides   map[int]*redistest.Side // connections that stay open
	runs    [5]sync.WaitGroup       // commands that do not return before the state ends
	fillers map[string][]byte       // files for servers to read, by their program
}

func newWard(f *fleet) *ward {
	return &ward{fleet: f, sides: make(map[int]*redistest.Side), fillers: make(map[string][]byte)}
}

// A switcher changes the state of one server.
type switcher func(w *ward, node int)

// do runs a command on a server, and counts the connection.
func (w *ward) do(node int, args ...string) any {
	w.Helper()
	w.asked[node]++
	return w.must(node, args...)
}

// answers waits until a server answers PING with an error that begins with the
// given word, or without an error if that is "".
func (w *ward) answers(node int, word string) {
	w.Helper()
	eventually(w, inTheEnd, func() error {
		w.asked[node]++
		_, err := w.servers[node].Do("PING")
		switch {
		case err == nil && word != "":
			return errors.New("no " + word + " yet")
		case err != nil && word != "" && strings.HasPrefix(err.Error(), word):
			return nil
		}
		return err
	})
}

// run starts a command that does not return before the state ends.
func (w *ward) run(node int, args ...string) {
	w.asked[node]++
	w.runs[node].Go(func() { _, _ = w.servers[node].Do(args...) }) // any answer will do: it is usually killed
}

// do is a switcher that runs a command.
func do(args ...string) switcher { return func(w *ward, node int) { w.Helper(); w.do(node, args...) } }

// set is a switcher that changes settings.
func set(settings ...string) switcher { return do(append([]string{"CONFIG", "SET"}, settings...)...) }

// user is a switcher that changes our user's rules.
func user(rules ...string) switcher {
	return do(append([]string{"ACL", "SETUSER", "redlock"}, rules...)...)
}

// scriptsOnly forbids our user the commands with which newer servers release
// (R25): if these are refused for another reason than scripts, or not at all,
// callers would get other errors.
func scriptsOnly(w *ward, node int) {
	w.Helper()
	w.asked[node] += 2
	for _, native := range nativeCommands(w.servers[node]) {
		user("-"+native)(w, node)
	}
}

// then runs several switchers in order.
func then(steps ...switcher) switcher {
	return func(w *ward, node int) {
		w.Helper()
		for _, step := range steps {
			step(w, node)
		}
	}
}

// kicked ends the client's connection, so that it must come back into the new
// state.
var kicked = do("CLIENT", "KILL", "TYPE", "normal")

// rest does nothing: the state ends by itself, or affects no other test.
func rest(*ward, int) {}

// ended waits until the server works again.
func ended(w *ward, node int) {
	w.Helper()
	w.answers(node, "")
	w.runs[node].Wait()
}

// A BGSAVE that cannot rename its file, because a folder has that name, fails.
// From then on the server refuses writes as long as there are save points.
func failSaving(w *ward, node int) {
	w.Helper()
	if err := os.MkdirAll(filepath.Join(w.folder(node), "dump.rdb", "in the way"), 0o700); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = os.RemoveAll(filepath.Join(w.folder(node), "dump.rdb")) })
	w.do(node, "BGSAVE")
	eventually(w, inTheEnd, func() error {
		if !strings.Contains(w.do(node, "INFO", "persistence").(string), "rdb_last_bgsave_status:err") {
			return os.ErrExist
		}
		return nil
	})
	set("save", "3600 1000000")(w, node)
}

func saveAgain(w *ward, node int) {
	w.Helper()
	set("save", "")(w, node)
	if err := os.RemoveAll(filepath.Join(w.folder(node), "dump.rdb")); err != nil {
		w.Fatal(err)
	}
}

// folder returns the folder of a server.
func (w *ward) folder(node int) string {
	return filepath.Dir(strings.TrimPrefix(w.servers[node].UnixURL(), "unix://"))
}

// runForever keeps a server in a script that ends when it is killed.
func runForever(w *ward, node int) {
	w.Helper()
	set("busy-reply-threshold", "1")(w, node)
	w.run(node, "EVAL", "while true do end", "0")
	w.answers(node, "BUSY")
}

// reload has a server read a file for fifteen seconds, which are cut short. The
// file comes from another server and fills another database: to save our own
// would silence the node for as long as the disk takes, and to read that would
// bring back keys released since.
func reload(w *ward, node int) {
	w.Helper()
	program := w.servers[node].Program() // other versions may not read its files
	if w.fillers[program] == nil {
		w.fillers[program] = filler(w, program)
	}
	w.Cleanup(func() { _ = os.Remove(w.dump(node)) }) // or else a restart would not be empty
	if err := os.WriteFile(w.dump(node), w.fillers[program], 0o600); err != nil {
		w.Fatal(err)
	}
	set("key-load-delay", "6000", "loading-process-events-interval-bytes", "1024")(w, node)
	w.run(node, "DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE")
	w.answers(node, "LOADING")
}

// filler returns such a file.
func filler(w *ward, program string) []byte {
	w.Helper()
	other := newWard(&fleet{w.TB, redistest.Servers(w.TB, 1, func(o *redistest.Options) { o.Path = program })})
	for _, command := range []string{"SELECT 1", "DEBUG POPULATE 5000 filler 1100", "CONFIG SET rdbcompression no", "SAVE"} {
		other.say(0, command)
	}
	file, err := os.ReadFile(other.dump(0))
	if err != nil {
		w.Fatal(err)
	}
	return file
}

// dump is the file that a server reads when it starts.
func (w *ward) dump(node int) string { return filepath.Join(w.folder(node), "dump.rdb") }

func loaded(w *ward, node int) {
	w.Helper()
	set("key-load-delay", "0")(w, node)
	w.runs[node].Wait()
	w.say(node, "SELECT 1")
	w.say(node, "FLUSHDB")
}

// say sends a command over a connection of the test that stays open.
func (w *ward) say(node int, command string) {
	w.Helper()
	s := w.sides[node]
	if s == nil {
		w.asked[node]++
		s = w.servers[node].Side()
		w.sides[node] = s
		w.Cleanup(func() { _ = s.Close() })
	}
	if _, err := s.Do(strings.Fields(command)...); err != nil {
		w.Fatalf("server %d: %s: %v", node, command, err)
	}
}

// leave closes that connection.
func (w *ward) leave(node int) {
	_ = w.sides[node].Close()
	delete(w.sides, node)
}

// fill limits a server to one client, which is the test's.
func fill(w *ward, node int) {
	w.Helper()
	w.say(node, "CONFIG SET maxclients 1")
	w.say(node, "CLIENT KILL TYPE normal SKIPME yes")
}

func empty(w *ward, node int) {
	w.Helper()
	w.say(node, "CONFIG SET maxclients 1000")
	w.leave(node)
}

// protect requires an unknown password, and unprotect ends that.
func protect(w *ward, node int) {
	w.Helper()
	set("requirepass", otherSecret)(w, node)
	w.servers[node].Authenticate("", otherSecret)
	kicked(w, node)
}

func unprotect(w *ward, node int) {
	w.Helper()
	set("requirepass", "")(w, node)
	w.servers[node].Authenticate("", "")
}

// restart is a switcher that restarts the server with some arguments; its
// connections are counted from zero again.
func restart(args ...string) switcher {
	return func(w *ward, node int) {
		w.Helper()
		if err := w.servers[node].RestartWith(args...); err != nil {
			w.Fatal(err)
		}
	}
}

// retype turns our keys into lists.
func retype(w *ward, node int) {
	w.Helper()
	for _, name := range w.names {
		w.do(node, "DEL", name)
		w.do(node, "RPUSH", name, "a list")
	}
}

func remove(w *ward, node int) {
	w.Helper()
	w.do(node, append([]string{"DEL"}, w.names...)...)
}

// These must never be shown, whatever our user is called (R27).
const (
	ourSecret   = "s3cret-of-the-matrix"
	otherSecret = "changed-in-the-night"
	keyMark     = "whole-key-of-the-matrix:"
)

func credentials(anonymous bool) redlock.Config {
	if anonymous {
		return redlock.Config{}
	}
	return redlock.Config{Username: "redlock", Password: ourSecret}
}
