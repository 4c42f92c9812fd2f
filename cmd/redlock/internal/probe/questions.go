package probe

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // the name that the protocol gives to scripts
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// question returns a Question whose answer is taken unless it is an error. What
// may not be asked stays unknown (R22), and so do answers of an unexpected
// form: only a protocol violation is worth ending the connection for, and
// package conn does that.
func question(take func(v resp.Value), args ...string) Question {
	return Question{resp.AppendCommand(nil, args...), func(v resp.Value) error {
		if !v.IsError() {
			take(v)
		}
		return nil
	}}
}

// slowEntries is how many entries of the slow log are read.
const slowEntries = 16

// questions returns what is asked of a node besides trials.
func (f *Facts) questions(prefix string) []Question {
	var now time.Time
	all := []Question{
		question(func(v resp.Value) {
			readInfo(string(v.Bytes()), f.Info)
			f.replicas = readReplicas(string(v.Bytes()))
		}, "INFO"),
		question(func(v resp.Value) { f.Flushes = readFlushes(string(v.Bytes())) }, "INFO", "commandstats"),
		question(func(v resp.Value) { f.User = printable(string(v.Bytes())) }, "ACL", "WHOAMI"),
		question(f.readWatchers, "PUBSUB", "NUMSUB", "__sentinel__:hello"),
		question(func(v resp.Value) { now, _ = readTime(v) }, "TIME"),
		question(func(v resp.Value) { f.readSlow(v, now) }, "SLOWLOG", "GET", strconv.Itoa(slowEntries)),
		{resp.AppendCommand(nil, "GET", prefix+"redlock:seal"), f.readSeal},
		{resp.AppendCommand(nil, "GET", prefix+"redlock:fence"), f.readFence},
	}
	all = append(all, f.elsewhere(prefix+"redlock:seal")...)
	for _, name := range settings {
		all = append(all, question(func(v resp.Value) { f.readSetting(name, v) }, "CONFIG", "GET", name))
	}
	return all
}

// readSetting takes the answer to CONFIG GET, a map or a list of name and value.
func (f *Facts) readSetting(name string, v resp.Value) {
	if v.Type() != resp.Map && v.Type() != resp.Array {
		return
	}
	if f.Config == nil {
		f.Config = Lines{}
	}
	for key, value := range v.Pairs() {
		if string(key.Bytes()) == name {
			f.Config[name] = printable(string(value.Bytes()))
		}
	}
}

// readWatchers takes the number of subscribers of the channel by which
// sentinels find each other.
func (f *Facts) readWatchers(v resp.Value) {
	for _, count := range v.Pairs() {
		if n, ok := count.Int64(); ok && n >= 0 {
			f.Watchers = n
		}
	}
}

// readSlow takes the slow log: for each entry when, how long, and the first
// word of the command. The other words are keys and values.
func (f *Facts) readSlow(v resp.Value, now time.Time) {
	for entry := range v.Elements() {
		var s Slow
		i := 0
		for e := range entry.Elements() {
			n, ok := e.Int64()
			switch {
			case i == 1 && ok && n >= 0 && n <= lastSecond:
				s.Ago = max(0, now.Sub(time.Unix(n, 0)))
			case i == 2 && ok && n >= 0 && n <= int64(pure.LongestTTL/time.Microsecond):
				s.Took = time.Duration(n) * time.Microsecond
			case i == 3:
				for word := range e.Elements() {
					s.Command = strings.ToUpper(printable(string(word.Bytes())))
					break
				}
			}
			i++
		}
		if s.Took > 0 && len(f.Slow) < slowEntries {
			f.Slow = append(f.Slow, s)
		}
	}
}

// readSeal takes the value of the key of the seal.
func (f *Facts) readSeal(v resp.Value) error {
	if f.Seal.State = stateOf(v); f.Seal.State != SealThere {
		return nil
	}
	seal, err := pure.ParseSeal(string(v.Bytes()))
	if err != nil {
		f.Seal.State, f.Later = SealStrange, pure.LaterForm(string(v.Bytes()))
		return nil
	}
	seal.Run = printable(seal.Run)
	f.Seal.Seal = seal
	return nil
}

// mostDatabases is how many databases are looked at.
const mostDatabases = 16

// elsewhere returns the questions that look for a seal in the other databases,
// by the same key. They leave the connection in its own.
func (f *Facts) elsewhere(key string) (all []Question) {
	selected := false
	choose := func(db int) Question {
		return Question{resp.AppendCommand(nil, "SELECT", strconv.Itoa(db)), func(v resp.Value) error {
			selected = v.IsOK()
			return nil
		}}
	}
	for db := range mostDatabases {
		if db == f.DB {
			continue
		}
		all = append(all, choose(db), Question{resp.AppendCommand(nil, "GET", key), func(v resp.Value) error {
			if !selected || stateOf(v) != SealThere || f.Elsewhere != (pure.Other{}) {
				return nil
			}
			if seal, err := pure.ParseSeal(string(v.Bytes())); err == nil && !seal.Free() {
				f.Elsewhere = pure.Other{DB: db, ID: seal.Set().ID}
			}
			return nil
		}})
	}
	return append(all, choose(f.DB))
}

// readFence takes the value of the key of the fencing numbers.
func (f *Facts) readFence(v resp.Value) (err error) {
	if f.Fence.State = stateOf(v); f.Fence.State != SealThere {
		return nil
	}
	if f.Fence.Record, err = pure.ParseRecord(string(v.Bytes())); err != nil {
		f.Fence.State = SealStrange
	}
	return nil
}

// stateOf returns what the reply to a GET says of a key, before its value is
// read.
func stateOf(v resp.Value) SealState {
	switch {
	case v.IsError() && string(v.ErrorPrefix()) == "WRONGTYPE":
		return SealStrange
	case v.IsError():
		return SealUnknown
	case v.IsNull():
		return SealAbsent
	}
	return SealThere
}

// trialScript reads its key, so that the trial fails for a user who may run
// scripts on other keys only.
const trialScript = "return redis.call('GET', KEYS[1]) and 1 or 0"

var trialDigest = Digest(trialScript)

// Digest returns the name of a script for EVALSHA.
func Digest(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// trials tries each command that locks need, on a key that does not exist. It
// changes nothing: SET sets existing keys only, and there is nothing to delete,
// expire or kill.
func (f *Facts) trials(prefix string) []Question {
	key := prefix + "redlock:trial:" + rand.Text()
	// Client ids never get that large.
	noClient := strconv.FormatInt(1<<62, 10)
	var all []Question
	try := func(name string, args ...string) {
		all = append(all, Question{resp.AppendCommand(nil, args...), func(v resp.Value) error {
			f.Rights = append(f.Rights, Right{name, refusal(v)})
			return nil
		}})
	}
	try("SET", "SET", key, "", "XX", "PX", "1000")
	try("GET", "GET", key)
	try("MGET", "MGET", key)
	try("DEL", "DEL", key)
	try("PTTL", "PTTL", key)
	try("PEXPIRE", "PEXPIRE", key, "1000")
	try("SCRIPT LOAD", "SCRIPT", "LOAD", trialScript)
	try("EVALSHA", "EVALSHA", trialDigest, "1", key)
	try("PING", "PING")
	try("INFO", "INFO", "server")
	try("TIME", "TIME")
	try("CLIENT ID", "CLIENT", "ID")
	try("CLIENT KILL", "CLIENT", "KILL", "ID", noClient)
	try("CLIENT TRACKING", "CLIENT", "TRACKING", "OFF")
	try("CLIENT CACHING", "CLIENT", "CACHING", "YES")
	return all
}

// refusal returns the class of the error that says why a command cannot be run.
func refusal(v resp.Value) conn.Class {
	switch class := conn.ClassOf(v); {
	case class == conn.ClassOther, class == conn.ClassWrongType:
		return conn.ClassNone // such as CLIENT CACHING, which is only allowed with tracking
	default:
		return class
	}
}
