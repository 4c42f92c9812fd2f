//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// A member is one etcd server in a process of its own, as redis-server is, so
// that its CPU is not the client's.
type member struct {
	cmd *exec.Cmd
	in  io.Closer // its end ends the member
}

// memberConfig is what the process of a member is told.
type memberConfig struct {
	Name, Dir, Client, Peer, Cluster string
	NoFsync                          bool
}

// memberVariable is set in the environment of a member and holds its
// configuration.
const memberVariable = "REDMUX_ETCD_MEMBER"

// startTimeout bounds the time until a cluster has a leader.
const startTimeout = time.Minute

// memberMain serves and exits if this process was started as a member;
// otherwise it returns. It ends when its standard input does.
func memberMain() {
	text := os.Getenv(memberVariable)
	if text == "" {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(text string) error {
	var m memberConfig
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.InitialCluster = m.Name, m.Dir, m.Cluster
	cfg.UnsafeNoFsync, cfg.LogLevel, cfg.LogOutputs = m.NoFsync, "error", []string{filepath.Join(filepath.Dir(m.Dir), m.Name+".log")}
	client, errClient := url.Parse(m.Client)
	peer, errPeer := url.Parse(m.Peer)
	if err := errors.Join(errClient, errPeer); err != nil {
		return err
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case <-e.Server.ReadyNotify(): // it has joined, and there is a leader
	case <-time.After(startTimeout):
		return errors.New("the cluster has no leader")
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// A cluster is the members of one etcd.
type cluster struct {
	members []member
	urls    []string // for clients
}

// startCluster starts n members with data in dir. Close it. Other processes may
// take its ports before it listens; then it is tried with others.
func startCluster(n int, dir string, noFsync bool) (c *cluster, err error) {
	for try := range 3 {
		if c, err = tryCluster(n, filepath.Join(dir, fmt.Sprintf("data%d-", try)), noFsync); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// tryCluster starts members whose folders begin with data.
func tryCluster(n int, data string, noFsync bool) (*cluster, error) {
	urls, err := freeURLs(2 * n)
	if err != nil {
		return nil, err
	}
	clients, peers := urls[:n], urls[n:]
	var all []string
	for i, p := range peers {
		all = append(all, fmt.Sprintf("m%d=%s", i, p))
	}
	c := &cluster{urls: clients}
	ready := make(chan error, n)
	for i := range n {
		m, out, err := startMember(memberConfig{
			Name: fmt.Sprintf("m%d", i), Dir: fmt.Sprint(data, i),
			Client: clients[i], Peer: peers[i], Cluster: strings.Join(all, ","), NoFsync: noFsync,
		})
		if err != nil {
			c.close()
			return nil, err
		}
		c.members = append(c.members, m)
		go func() {
			line, err := bufio.NewReader(out).ReadString('\n')
			if line != "ready\n" {
				err = fmt.Errorf("a member of etcd did not start: %w", err)
			}
			ready <- err
		}()
	}
	for range n {
		if err := <-ready; err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func startMember(config memberConfig) (member, io.Reader, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return member{}, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return member{}, nil, err
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), memberVariable+"="+string(text)), os.Stderr
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return member{}, nil, err
	}
	return member{cmd, in}, out, cmd.Start()
}

// close ends the members, and kills what does not end.
func (c *cluster) close() {
	for _, m := range c.members {
		_ = m.in.Close()
	}
	for _, m := range c.members {
		timer := time.AfterFunc(10*time.Second, func() { _ = m.cmd.Process.Kill() })
		_ = m.cmd.Wait()
		timer.Stop()
	}
}

// freeURLs returns addresses on which nothing listened a moment ago.
func freeURLs(n int) (all []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // not before all are found, so that they differ
		all = append(all, "http://"+l.Addr().String())
	}
	return all, nil
}
