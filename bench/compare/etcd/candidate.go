//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/election"
)

// A candidate is a process that stands for election. It says when it leads and
// when it knows that it leads no more, a line for each.
type candidate struct {
	cmd  *exec.Cmd
	in   io.WriteCloser // a line makes it step down
	says <-chan word    // closed when the process has ended
}

// A word is a line of a candidate, and when it came.
type word struct {
	text string
	at   time.Time
}

// The words of a candidate.
const (
	leads       = "leads"
	leadsNoMore = "leads no more"
)

// candidacy is what the process of a candidate is told.
type candidacy struct {
	Peer, Name, Election string
	URLs                 []string
	TTL                  time.Duration
}

// candidateVariable is set in the environment of a candidate and holds its
// candidacy.
const candidateVariable = "REDMUX_ETCD_CANDIDATE"

// candidateMain stands for election and exits if this process was started as a
// candidate; otherwise it returns.
func candidateMain() {
	text := os.Getenv(candidateVariable)
	if text == "" {
		return
	}
	var c candidacy
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.stand()
	}
	fmt.Fprintln(os.Stderr, "a candidate:", err)
	os.Exit(1)
}

// stand stands for election until the process ends. Each line of standard input
// makes the leader step down; its end ends the process.
func (c *candidacy) stand() error {
	steps := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			steps <- struct{}{}
		}
		os.Exit(0)
	}()
	if c.Peer == peerName {
		return c.standAtEtcd(steps)
	}
	return c.standAtMasters(steps)
}

func (c *candidacy) standAtMasters(steps <-chan struct{}) error {
	ctx := context.Background()
	client, err := redlock.New(ctx, redlock.Config{Nodes: redlock.Nodes(c.URLs...), Fenced: true, Owner: c.Name, MaxTTL: c.TTL})
	if err != nil {
		return err
	}
	e, err := election.New(client, c.Election, election.Options{TTL: c.TTL})
	if err != nil {
		return err
	}
	go func() {
		for range steps {
			_ = e.StepDown(ctx)
		}
	}()
	return e.Run(ctx, func(ctx context.Context, _ uint64) error {
		fmt.Println(leads)
		<-ctx.Done()
		fmt.Println(leadsNoMore)
		return nil
	})
}

// standAtEtcd campaigns as etcd's documentation shows: a session whose lease is
// kept alive, and a new one when that has ended.
func (c *candidacy) standAtEtcd(steps <-chan struct{}) error {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.URLs, DialTimeout: openTimeout, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	for {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(c.TTL/time.Second)))
		if err != nil {
			return err
		}
		e := concurrency.NewElection(session, c.Election)
		if err := e.Campaign(ctx, c.Name); err != nil {
			return err
		}
		fmt.Println(leads)
		select {
		case <-session.Done():
			fmt.Println(leadsNoMore)
		case <-steps:
			fmt.Println(leadsNoMore)
			if err := errors.Join(e.Resign(ctx), session.Close()); err != nil {
				return err
			}
			time.Sleep(c.TTL) // as ours rests
		}
	}
}

// startCandidate starts a candidate. End it.
func startCandidate(s side, name, election string, ttl time.Duration) (*candidate, error) {
	text, err := json.Marshal(candidacy{s.peer, name, election, s.urls, ttl})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), candidateVariable+"="+string(text)), os.Stderr
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		return nil, err
	}
	says := make(chan word, 16)
	go func() {
		defer close(says)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			says <- word{lines.Text(), time.Now()}
		}
	}()
	return &candidate{cmd, in, says}, nil
}

// hear waits for a word, and returns when it came.
func (c *candidate) hear(ctx context.Context, text string) (time.Time, error) {
	for {
		select {
		case w, ok := <-c.says:
			if !ok {
				return time.Time{}, errors.New("a candidate has ended")
			}
			if w.text == text {
				return w.at, nil
			}
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("no candidate says that it %s: %w", text, ctx.Err())
		}
	}
}

// end kills the process, also one that is stopped.
func (c *candidate) end() {
	_ = c.cmd.Process.Kill()
	for range c.says {
	}
	_ = c.cmd.Wait()
	_ = c.in.Close()
}
