package faults

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// A fleet is the servers, and what there is to be done to them from the side.
// Close it.
type fleet struct {
	servers  []*redistest.Server
	sides    []*redistest.Side
	password string
	folder   string // of the access list
}

// newFleet starts servers and opens their deployment (R30), so that the first
// clients need not wait.
func newFleet(options *Options) (*fleet, error) {
	f := &fleet{password: rand.Text()}
	var err error
	if f.folder, err = os.MkdirTemp("", "faults"); err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	// A file and not the command line, which other users of the machine can
	// read; and only a hash of the password.
	list := filepath.Join(f.folder, "acl")
	rules := "user default on nopass ~* &* +@all\nuser " + userName + " on " + f.passwordRule() + " ~* &* +@all\n"
	if err := os.WriteFile(list, []byte(rules), 0o600); err != nil {
		return nil, errors.Join(err, f.close())
	}
	f.servers, err = redistest.StartN(options.Nodes, redistest.Options{
		Path: options.Server, Unix: true, TCP: true, Args: []string{"--aclfile", list}, OwnClock: clocksAvailable() == nil,
	})
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	for _, s := range f.servers {
		f.sides = append(f.sides, s.Side())
	}
	if err := f.found(options.MaxTTL); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// found opens the deployment.
func (f *fleet) found(maxTTL time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := admin.Init(ctx, f.config(f.unixURLs(), maxTTL))
	return err
}

// config returns the configuration of a client in this process.
func (f *fleet) config(urls []string, maxTTL time.Duration) redlock.Config {
	return redlock.Config{
		Nodes: redlock.Nodes(urls...), Prefix: prefix, Username: userName, Password: f.password, MaxTTL: maxTTL,
	}
}

func (f *fleet) unixURLs() (urls []string) {
	for _, s := range f.servers {
		urls = append(urls, s.UnixURL())
	}
	return urls
}

func (f *fleet) tcpURLs() (urls []string) {
	for _, s := range f.servers {
		urls = append(urls, "redis://"+s.TCPAddr())
	}
	return urls
}

// sockets are the paths of the unix sockets.
func (f *fleet) sockets() (paths []string) {
	for _, url := range f.unixURLs() {
		paths = append(paths, strings.TrimPrefix(url, "unix://"))
	}
	return paths
}

// passwordRule is the clients' password as an access list has it.
func (f *fleet) passwordRule() string {
	sum := sha256.Sum256([]byte(f.password))
	return "#" + hex.EncodeToString(sum[:])
}

// otherPassword is a password that no client knows.
func (f *fleet) otherPassword() string { return rand.Text() }

// describe says which servers they are, by product and version.
func (f *fleet) describe() (all []string) {
	for _, s := range f.servers {
		product, version, err := s.Introduction()
		if err != nil {
			product, version = "unknown", err.Error()
		}
		all = append(all, product+" "+version)
	}
	return all
}

func (f *fleet) close() (err error) {
	for i, s := range f.servers {
		_ = f.sides[i].Close()
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, os.RemoveAll(f.folder))
}
