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

// question is one whose answer is taken where it is no error. What may not be asked stays unknown (R22), and so does what is
// answered in an unexpected form: only a protocol that is violated is worth ending the connection for, and conn sees to that.
func question(take func(v resp.Value), args ...string) Question {
	return Question{resp.AppendCommand(nil, args...), func(v resp.Value) error {
		if !v.IsError() {
			take(v)
		}
		return nil
	}}
}

// slowEntries is how many entries of the slow log are looked at.
const slowEntries = 16

// questions are what is asked of a node besides trials.
func (f *Facts) questions(prefix string) []Question {
	var now time.Time
	all := []Question{
		question(func(v resp.Value) { readInfo(string(v.Bytes()), f.Info) }, "INFO"),
		question(func(v resp.Value) { f.Flushes = readFlushes(string(v.Bytes())) }, "INFO", "commandstats"),
		question(func(v resp.Value) { f.User = printable(string(v.Bytes())) }, "ACL", "WHOAMI"),
		question(f.readWatchers, "PUBSUB", "NUMSUB", "__sentinel__:hello"),
		question(func(v resp.Value) { now, _ = readTime(v) }, "TIME"),
		question(func(v resp.Value) { f.readSlow(v, now) }, "SLOWLOG", "GET", strconv.Itoa(slowEntries)),
		{resp.AppendCommand(nil, "GET", prefix+"redlock:seal"), f.readSeal},
	}
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

// readWatchers takes how many listen on the channel by which sentinels find one another.
func (f *Facts) readWatchers(v resp.Value) {
	for _, count := range v.Pairs() {
		if n, ok := count.Int64(); ok && n >= 0 {
			f.Watchers = n
		}
	}
}

// readSlow takes the slow log: of each entry when, how long, and the first word of what. The others are keys and values.
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

// readSeal takes what stands in the place of the seal.
func (f *Facts) readSeal(v resp.Value) error {
	switch {
	case v.IsError() && string(v.ErrorPrefix()) == "WRONGTYPE":
		f.Seal.State = SealStrange
	case v.IsError():
	case v.IsNull():
		f.Seal.State = SealAbsent
	default:
		seal, err := pure.ParseSeal(string(v.Bytes()))
		if err != nil {
			f.Seal.State = SealStrange
			return nil
		}
		f.Seal = Seal{SealThere, printable(seal.Run), seal.MaxTTL, seal.Watched}
	}
	return nil
}

// The script on trial, and its name. It looks at its key, so that a user who may run scripts on other keys only is found out.
const trialScript = "return redis.call('GET', KEYS[1]) and 1 or 0"

var trialDigest = func() string {
	sum := sha1.Sum([]byte(trialScript))
	return hex.EncodeToString(sum[:])
}()

// trials try each command that locks need, on a key that nobody has. None of them changes anything: SET is told to set only
// what is there, and there is neither anything to delete, to expire or to kill.
func (f *Facts) trials(prefix string) []Question {
	key := prefix + "redlock:trial:" + rand.Text()
	// No server has ever had so many clients.
	nobody := strconv.FormatInt(1<<62, 10)
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
	try("CLIENT ID", "CLIENT", "ID")
	try("CLIENT KILL", "CLIENT", "KILL", "ID", nobody)
	try("CLIENT TRACKING", "CLIENT", "TRACKING", "OFF")
	try("CLIENT CACHING", "CLIENT", "CACHING", "YES")
	return all
}

// refusal is the class of the error that says why a command cannot be run.
func refusal(v resp.Value) conn.Class {
	switch class := conn.ClassOf(v); {
	case class == conn.ClassOther && strings.Contains(string(v.Bytes()), "ACL failure in script"),
		class == conn.ClassOther && strings.Contains(string(v.Bytes()), "can't run this command"):
		return conn.ClassNoPerm
	case class == conn.ClassOther, class == conn.ClassWrongType:
		return conn.ClassNone // CLIENT CACHING, say, has been understood, and wants to be asked for at another time
	default:
		return class
	}
}
