package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

const ms = time.Millisecond

// mostPatience bounds how long is waited for what a server does by itself,
// which takes some milliseconds.
const mostPatience = 20 * time.Second

// nodeKinds are what can be wrong with a server. redlock's own tests have the
// same states one by one (redlock/faults_matrix_test.go); here they come in any
// order, under load, while something else is wrong elsewhere.
func nodeKinds() []*Kind {
	kinds := []*Kind{
		{Name: "kill", About: "kill -9, then an empty restart",
			weight: 1, least: 1 * ms, most: 300 * ms, forgets: true, inject: kill},
		{Name: "stop", About: "SIGSTOP, for less than it takes to be given up",
			weight: 5, least: 5 * ms, most: 80 * ms, inject: stop},
		{Name: "stop-long", About: "SIGSTOP, until clients have given it up",
			weight: 1, least: 300 * ms, most: 1200 * ms, leaves: true, inject: stop},
		{Name: "client-kill", About: "CLIENT KILL of every connection",
			weight: 2, leaves: true, inject: once("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")},
		{Name: "pause-write", About: "CLIENT PAUSE WRITE", weight: 3, least: 10 * ms, most: 150 * ms, inject: pauseWrite},
		{Name: "pause-all", About: "CLIENT PAUSE ALL",
			weight: 3, least: 10 * ms, most: 150 * ms, leaves: true, inject: blocking("CLIENT", "PAUSE")},
		{Name: "sleep", About: "DEBUG SLEEP",
			weight: 3, least: 10 * ms, most: 150 * ms, inject: blocking("DEBUG", "SLEEP")},
		{Name: "oom", About: "-OOM: maxmemory is reached", weight: 5, least: 10 * ms, most: 300 * ms,
			inject: setting("maxmemory", "1", "0")},
		{Name: "noreplicas", About: "-NOREPLICAS: min-replicas-to-write", weight: 5, least: 10 * ms, most: 300 * ms,
			inject: setting("min-replicas-to-write", "1", "0")},
		{Name: "misconf", About: "-MISCONF: the last BGSAVE failed",
			weight: 3, least: 10 * ms, most: 200 * ms, inject: misconf},
		{Name: "busy", About: "-BUSY: a script runs too long, then SCRIPT KILL",
			weight: 3, least: 10 * ms, most: 120 * ms, leaves: true, inject: busy},
		{Name: "loading", About: "-LOADING: the data set is read again",
			weight: 1, least: 20 * ms, most: 150 * ms, inject: loading},
		{Name: "readonly", About: "-READONLY: REPLICAOF, and back", weight: 1, least: 10 * ms, most: 200 * ms,
			inject: between(words("REPLICAOF 127.0.0.1 1"), words("REPLICAOF NO ONE"))},
		{Name: "masterdown", About: "-MASTERDOWN: a replica without its master that may not serve stale data", weight: 1,
			least: 10 * ms, most: 200 * ms, inject: masterDown},
		{Name: "replica", About: "a replica when clients come back: not a master (R22)",
			weight: 1, least: 10 * ms, most: 200 * ms,
			inject: comeBackTo("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")},
		{Name: "noperm-set", About: "-NOPERM to SET",
			weight: 4, least: 10 * ms, most: 200 * ms, inject: user("-set", "+@all")},
		{Name: "noperm-scripts", About: "-NOPERM to scripts",
			weight: 2, least: 10 * ms, most: 200 * ms, leaves: true, inject: user("-evalsha", "+@all")},
		{Name: "noperm-keys", About: "-NOPERM to the keys", weight: 2, least: 10 * ms, most: 200 * ms, inject: noKeys},
		{Name: "wrongpass", About: "-WRONGPASS when clients come back",
			weight: 1, least: 10 * ms, most: 100 * ms, inject: wrongPassword},
		{Name: "maxclients", About: "too many clients when they come back",
			weight: 1, least: 10 * ms, most: 300 * ms, leaves: true, inject: maxClients},
		{Name: "script-flush", About: "SCRIPT FLUSH: -NOSCRIPT", weight: 6, inject: once("SCRIPT", "FLUSH")},
	}
	for _, k := range kinds {
		k.Scope = OfNode
	}
	return kinds
}

type injection = func(t *target) (heal func() error, err error)

func words(text string) []string { return strings.Fields(text) }

// once runs a command; the fault is over by itself.
func once(command ...string) injection {
	return func(t *target) (func() error, error) {
		_, err := t.side.Do(command...)
		return nil, err
	}
}

// between runs one command to begin and another to end.
func between(on, off []string) injection {
	return func(t *target) (func() error, error) {
		if _, err := t.side.Do(on...); err != nil {
			return nil, err
		}
		return t.doing(off...), nil
	}
}

// doing is a heal that runs a command.
func (t *target) doing(command ...string) func() error {
	return func() error {
		_, err := t.side.Do(command...)
		return err
	}
}

// setting changes a setting for the time of the fault.
func setting(name, on, off string) injection {
	return between([]string{"CONFIG", "SET", name, on}, []string{"CONFIG", "SET", name, off})
}

// user changes the rules of the clients' user for the time of the fault.
func user(on, off string) injection {
	return between([]string{"ACL", "SETUSER", userName, on}, []string{"ACL", "SETUSER", userName, off})
}

func noKeys(t *target) (func() error, error) {
	return between(words("ACL SETUSER "+userName+" resetkeys ~other:*"), words("ACL SETUSER "+userName+" resetkeys ~*"))(t)
}

// comeBackTo changes something that concerns those who connect, and ends all
// connections.
func comeBackTo(on, off string) injection {
	return func(t *target) (func() error, error) {
		heal, err := between(words(on), words(off))(t)
		if err != nil {
			return nil, err
		}
		_, err = t.side.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		if err != nil {
			return nil, errors.Join(err, heal())
		}
		return heal, nil
	}
}

func wrongPassword(t *target) (func() error, error) {
	return comeBackTo("ACL SETUSER "+userName+" resetpass >"+t.fleet.otherPassword(),
		"ACL SETUSER "+userName+" resetpass "+t.fleet.passwordRule())(t)
}

// maxClients lets the server have one client, which is our side connection.
func maxClients(t *target) (func() error, error) {
	return comeBackTo("CONFIG SET maxclients 1", "CONFIG SET maxclients 500")(t)
}

func kill(t *target) (func() error, error) {
	if err := t.server.Kill(); err != nil {
		return nil, err
	}
	return t.restart, nil
}

// restart starts the server empty. Keys that other faults have let it save must
// not come back with it.
func (t *target) restart() error {
	err := t.removeDump()
	_ = t.side.Close() // it led to the process that is gone
	return errors.Join(err, t.server.Restart())
}

func (t *target) removeDump() error {
	return os.RemoveAll(filepath.Join(t.folder(), "dump.rdb"))
}

// folder is where the server lives.
func (t *target) folder() string {
	return filepath.Dir(strings.TrimPrefix(t.server.UnixURL(), "unix://"))
}

func stop(t *target) (func() error, error) {
	if err := t.server.Stop(); err != nil {
		return nil, err
	}
	return t.server.Continue, nil
}

// pauseWrite is ended by hand; should that fail it ends by itself.
func pauseWrite(t *target) (func() error, error) {
	most := fmt.Sprint((t.life + time.Second).Milliseconds())
	return between([]string{"CLIENT", "PAUSE", most, "WRITE"}, words("CLIENT UNPAUSE"))(t)
}

// blocking runs a command that keeps the server from answering for the fault's
// life, and which nothing can end before: not even the command that would is
// executed. It goes over a connection of its own.
func blocking(command ...string) injection {
	return func(t *target) (func() error, error) {
		amount := fmt.Sprint(t.life.Milliseconds())
		if command[0] == "DEBUG" {
			amount = fmt.Sprint(t.life.Seconds())
		}
		return t.running(append(append([]string(nil), command...), amount)...), nil
	}
}

// running starts a command that does not return before the fault is over, and
// returns a heal that waits for that and for the server to answer again.
func (t *target) running(command ...string) (ended func() error) {
	done := make(chan error, 1)
	go func() {
		_, err := t.server.Do(command...)
		if redistest.IsReply(err) {
			err = nil // whatever it answers: it is killed as a rule
		}
		done <- err
	}()
	return func() error {
		failed := <-done // the command may never have arrived
		_, err := t.side.Do("PING")
		return errors.Join(failed, err)
	}
}

// misconf has a BGSAVE fail that cannot rename its file, because a folder of
// that name is in the way. From then on writes are refused for as long as there
// are save points.
func misconf(t *target) (func() error, error) {
	if err := os.MkdirAll(filepath.Join(t.folder(), "dump.rdb", "in the way"), 0o700); err != nil {
		return nil, err
	}
	heal := func() error {
		_, err := t.side.Do("CONFIG", "SET", "save", "")
		return errors.Join(err, t.removeDump())
	}
	err := t.failSaving()
	if err == nil {
		_, err = t.side.Do("CONFIG", "SET", "save", "3600 1000000")
	}
	if err != nil {
		return nil, errors.Join(err, heal())
	}
	return heal, nil
}

// failSaving saves in the background until that has failed. Once is enough for
// a server's life.
func (t *target) failSaving() error {
	for end := time.Now().Add(mostPatience); time.Now().Before(end); {
		info, err := t.side.Do("INFO", "persistence")
		if err != nil {
			return err
		}
		text, _ := info.(string)
		switch {
		case strings.Contains(text, "rdb_last_bgsave_status:err"):
			return nil
		case !strings.Contains(text, "rdb_bgsave_in_progress:1"):
			if _, err := t.side.Do("BGSAVE"); err != nil {
				return err
			}
		}
		time.Sleep(2 * ms)
	}
	return errors.New("no BGSAVE failed")
}

// busy keeps the server in a script that ends when it is killed.
func busy(t *target) (func() error, error) {
	if _, err := t.side.Do("CONFIG", "SET", "busy-reply-threshold", "1"); err != nil {
		return nil, err
	}
	ended := t.running("EVAL", "while true do end", "0")
	return func() error {
		for end := time.Now().Add(mostPatience); time.Now().Before(end); { // until the script has begun, and is found
			if _, err := t.side.Do("SCRIPT", "KILL"); err == nil {
				return ended()
			}
			time.Sleep(ms)
		}
		return errors.New("the script does not end")
	}, nil
}

// loading makes a server read its data set again, slowly: keys in another
// database delay it.
func loading(t *target) (func() error, error) {
	aside := t.server.Side()
	defer aside.Close()
	for _, command := range []string{
		"SELECT 1", "DEBUG POPULATE 1000 filler 1100", "CONFIG SET rdbcompression no",
		"CONFIG SET key-load-delay 3000", "CONFIG SET loading-process-events-interval-bytes 1024",
	} {
		if _, err := aside.Do(words(command)...); err != nil {
			return nil, err
		}
	}
	ended := t.running("DEBUG", "RELOAD")
	return func() error {
		_, err := t.side.Do("CONFIG", "SET", "key-load-delay", "0")
		err = errors.Join(err, ended(), t.removeDump())
		aside := t.server.Side()
		defer aside.Close()
		for _, command := range []string{"SELECT 1", "FLUSHDB"} { // of the other database
			_, failed := aside.Do(words(command)...)
			err = errors.Join(err, failed)
		}
		return err
	}, nil
}

// masterDown is a replica that may not serve what it has.
func masterDown(t *target) (func() error, error) {
	if _, err := t.side.Do("CONFIG", "SET", "replica-serve-stale-data", "no"); err != nil {
		return nil, err
	}
	heal := func() error {
		_, back := t.side.Do("REPLICAOF", "NO", "ONE")
		_, err := t.side.Do("CONFIG", "SET", "replica-serve-stale-data", "yes")
		return errors.Join(back, err)
	}
	if _, err := t.side.Do("REPLICAOF", "127.0.0.1", "1"); err != nil {
		return nil, errors.Join(err, heal())
	}
	return heal, nil
}
