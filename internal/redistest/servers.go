package redistest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options say which server to start and how it listens. The zero value works.
type Options struct {
	// Path of the executable, which must become the server itself (a script
	// ends in exec). If zero, what Find finds, and for StartN what FindAll
	// does.
	Path string

	// Unix, TCP and TLS say where the server listens; Unix goes with either of
	// the others. If none is set, on a unix socket only. TLS wins over TCP.
	Unix, TCP, TLS bool

	// Password is required of clients. If zero, none.
	Password string

	// Args are appended to the command line, as "--maxclients", "10", and win
	// over what stands before them.
	Args []string

	// OwnClock gives the server a Clock, where ClocksAvailable returns nil.
	OwnClock bool

	// certs is shared by the servers of one StartN.
	certs *Certificates
	// watch is what a sentinel watches; see Sentinels. If empty, the server is
	// none.
	watch []string
	// fronted is set by Fronted.
	fronted bool
}

// startTimeout bounds the time until a server answers.
const startTimeout = time.Minute

// ErrNoServer is returned when there is no server to start.
var ErrNoServer = errors.New("redistest: no redis-server or valkey-server on PATH, and REDMUX_SERVER names none")

// Find returns the server to test against: what the environment variable
// REDMUX_SERVER names, else the first of REDMUX_SERVERS (see FindAll), else
// redis-server or valkey-server on PATH.
func Find() (path string, ok bool) {
	path = os.Getenv("REDMUX_SERVER")
	if all := named(); path == "" && len(all) > 0 {
		path = all[0]
	}
	if path != "" {
		found, err := exec.LookPath(path)
		return found, err == nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if found, err := exec.LookPath(name); err == nil {
			return found, true
		}
	}
	return "", false
}

// Server is a process that answers commands. It keeps nothing on disk, so a
// Restart comes back empty. Methods are safe for concurrent use.
//
// Servers die with this process even when it is killed (on Linux).
type Server struct {
	opts Options
	dir  string
	port int // 0: no TCP
	// front is where replicas and sentinels reach the server. Without one, that
	// is its own port.
	front *Proxy
	// clock is nil without Options.OwnClock.
	clock *Clock

	mu       sync.Mutex // guards the following
	cmd      *exec.Cmd
	extra    []string      // arguments of this run only, see RestartWith
	exited   chan struct{} // closed when cmd has ended
	user     string
	password string
	closed   bool
}

// Start starts one server and waits until it answers. Close it.
func Start(opts Options) (*Server, error) {
	if opts.Path == "" {
		path, ok := Find()
		if !ok {
			return nil, ErrNoServer
		}
		opts.Path = path
	}
	if opts.TLS && opts.certs == nil {
		certs, err := NewCertificates()
		if err != nil {
			return nil, fmt.Errorf("redistest: certificates: %w", err)
		}
		opts.certs = certs
	}
	opts.Unix = opts.Unix || !opts.TCP && !opts.TLS

	// The folder's name is short because a unix socket's path may have about
	// 100 bytes, of which a test's own temporary folder can use up most.
	dir, err := os.MkdirTemp("", "rt")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	s := &Server{opts: opts, dir: dir, password: opts.Password}
	if opts.OwnClock {
		if s.clock, err = newClock(dir); err != nil {
			s.Close()
			return nil, err
		}
	}
	if err := s.startFirst(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// StartN starts n servers at once. When one fails all are closed, and one
// reason is given: it is usually that of all. With TLS they share one
// certificate authority, so that one tls.Config serves all. Without a Path they
// are what FindAll finds, in turn.
func StartN(n int, opts Options) ([]*Server, error) {
	paths := []string{opts.Path}
	if opts.Path == "" {
		var err error
		if paths, err = FindAll(); err != nil {
			return nil, err
		}
	}
	if opts.TLS && opts.certs == nil {
		certs, err := NewCertificates()
		if err != nil {
			return nil, fmt.Errorf("redistest: certificates: %w", err)
		}
		opts.certs = certs
	}
	servers, errs := make([]*Server, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		opts := opts
		opts.Path = paths[i%len(paths)]
		wg.Go(func() { servers[i], errs[i] = Start(opts) })
	}
	wg.Wait()
	if err := cmp.Or(errs...); err != nil {
		CloseAll(servers)
		return nil, err
	}
	return servers, nil
}

// CloseAll closes the servers that are not nil.
func CloseAll(servers []*Server) {
	for _, s := range servers {
		if s != nil {
			_ = s.Close()
		}
	}
}

// URL is where clients connect: rediss, redis or unix, in this order of
// preference, with the password given in Options.
func (s *Server) URL() string {
	if s.port == 0 {
		return s.UnixURL()
	}
	u := url.URL{Scheme: "redis", Host: s.TCPAddr(), User: s.userinfo()}
	if s.opts.TLS {
		u.Scheme = "rediss"
	}
	return u.String()
}

// Program returns the path of the server's executable.
func (s *Server) Program() string { return s.opts.Path }

// UnixURL is the URL of the unix socket; empty when there is none.
func (s *Server) UnixURL() string {
	if !s.opts.Unix {
		return ""
	}
	u := url.URL{Scheme: "unix", Path: s.socket(), User: s.userinfo()}
	return u.String()
}

// TCPAddr is host and port; empty when the server listens on a unix socket
// only.
func (s *Server) TCPAddr() string {
	if s.port == 0 {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// TLSConfig trusts the server's certificate; nil without TLS.
func (s *Server) TLSConfig() *tls.Config {
	if s.opts.certs == nil {
		return nil
	}
	return s.opts.certs.Client()
}

// ServerTLS shows the same certificate as the server; nil without TLS.
func (s *Server) ServerTLS() *tls.Config {
	if s.opts.certs == nil {
		return nil
	}
	return s.opts.certs.Server()
}

// CAFile is the PEM file of the certificate authority; empty without TLS.
func (s *Server) CAFile() string {
	if s.opts.certs == nil {
		return ""
	}
	return filepath.Join(s.dir, "ca.crt")
}

// PID is the process of the moment; a Restart changes it.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Log is what the server has logged, warnings and worse.
func (s *Server) Log() string {
	var all bytes.Buffer
	for _, name := range []string{"out", "log"} {
		b, _ := os.ReadFile(filepath.Join(s.dir, name))
		all.Write(b)
	}
	return all.String()
}

// Stop stops the process with SIGSTOP: connections stay, nothing is executed,
// and the kernel goes on accepting connections and bytes for it.
func (s *Server) Stop() error { return s.signal(stopProcess) }

// Continue ends a Stop. What arrived meanwhile is executed now (R8).
func (s *Server) Continue() error { return s.signal(continueProcess) }

// Kill ends the process with SIGKILL, also a stopped one, and waits for its
// end.
func (s *Server) Kill() error {
	s.mu.Lock()
	cmd, exited := s.cmd, s.exited
	s.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("redistest: %w", err)
	}
	<-exited
	return nil
}

// Restart kills the server if it runs and starts an empty one on the same
// addresses. It waits until that answers.
func (s *Server) Restart() error { return s.RestartWith() }

// RestartWith is Restart with further arguments, as "--cluster-enabled", "yes",
// for this run only: the next Restart is without them again.
func (s *Server) RestartWith(args ...string) error {
	if err := s.Kill(); err != nil {
		return err
	}
	s.mu.Lock()
	s.extra = args
	s.mu.Unlock()
	s.Authenticate("", s.opts.Password)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := s.launch(ctx)
		// Another process may have the port for a moment.
		if err == nil || !errors.Is(err, errAddressTaken) || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Close kills the server and removes its folder.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := s.Kill()
	if s.clock != nil {
		err = errors.Join(err, s.clock.close())
	}
	return errors.Join(err, s.removeFolder())
}

// removeFolder renames the folder first, so that nothing is put into it while
// it is emptied: by a Restart that has begun, or by loadgen's faults, which
// give the socket its name back and which a second interrupt does not wait for.
func (s *Server) removeFolder() error {
	gone := s.dir + ".gone"
	if err := os.Rename(s.dir, gone); err != nil { // closed before, or a system where it is not possible
		gone = s.dir
	}
	return os.RemoveAll(gone)
}

var errAddressTaken = errors.New("redistest: the address is taken")

// startFirst tries other ports as long as the one it chose turns out to be
// taken: between looking for a free port and the server's bind anything
// happens.
func (s *Server) startFirst() error {
	if err := s.opts.certs.write(s.dir); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		if s.opts.TCP || s.opts.TLS {
			port, err := FreePort()
			if err != nil {
				return err
			}
			s.port = port
		}
		if err := s.writeSentinel(); err != nil {
			return err
		}
		err := s.launch(ctx)
		if err == nil || !errors.Is(err, errAddressTaken) || ctx.Err() != nil {
			return err
		}
	}
}

// launch starts the process and waits until it answers.
func (s *Server) launch(ctx context.Context) error {
	out, err := os.Create(filepath.Join(s.dir, "out"))
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	defer out.Close()
	os.Remove(filepath.Join(s.dir, "log"))

	cmd := exec.Command(s.opts.Path, s.args()...)
	// A file, not a buffer: exec would copy to a buffer in a goroutine.
	cmd.Stdout, cmd.Stderr = out, out
	if s.clock != nil {
		cmd.Env = s.clock.environ()
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.New("redistest: server is closed")
	}
	if err := spawn(cmd); err != nil {
		s.mu.Unlock()
		return fmt.Errorf("redistest: %w", err)
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	s.mu.Unlock()
	go func() {
		defer close(exited)
		cmd.Wait()
	}()

	if err := s.await(ctx, exited); err != nil {
		s.Kill()
		return err
	}
	// The loader goes on without a library that it cannot use, as under a
	// server for another C library, and only says so.
	if s.clock != nil && strings.Contains(s.Log(), "clock.so' from LD_PRELOAD cannot be preloaded") {
		s.Kill()
		return fmt.Errorf("%w: %s", ErrNoClocks, strings.TrimSpace(s.Log()))
	}
	return nil
}

// await polls until the server answers. Any answer will do: a password given in
// Args makes it an error.
func (s *Server) await(ctx context.Context, exited <-chan struct{}) error {
	for {
		select {
		case <-exited:
			log := s.Log()
			if strings.Contains(log, "in use") {
				return errAddressTaken
			}
			return fmt.Errorf("redistest: %s ended at once: %s", s.opts.Path, strings.TrimSpace(log))
		case <-ctx.Done():
			return fmt.Errorf("redistest: %s does not answer: %w: %s", s.opts.Path, ctx.Err(), s.Log())
		case <-time.After(2 * time.Millisecond):
		}
		conn, err := s.dial()
		if err != nil {
			continue
		}
		info, err := exchange(conn, "INFO", "server")
		conn.Close()
		var reply *serverError
		if err != nil && !errors.As(err, &reply) {
			continue
		}
		// Only now is it certain that this server has the port: a stranger that
		// took it first would answer, too.
		if text, ok := info.(string); ok && s.port != 0 && !strings.Contains(text, fmt.Sprintf("process_id:%d\r\n", s.PID())) {
			return errAddressTaken
		}
		return nil
	}
}

// args is the command line: nothing on disk but the log, and DEBUG allowed,
// because DEBUG SLEEP is a fault that tests want.
func (s *Server) args() []string {
	if len(s.opts.watch) > 0 {
		return []string{s.sentinelFile(), "--sentinel"}
	}
	args := []string{
		"--save", "", "--appendonly", "no", "--daemonize", "no",
		"--dir", s.dir, "--loglevel", "warning", "--logfile", filepath.Join(s.dir, "log"),
		"--enable-debug-command", "yes", "--bind", "127.0.0.1",
	}
	port := strconv.Itoa(s.port)
	if s.opts.TLS {
		for _, option := range s.tlsOptions() {
			args = append(args, "--"+option[0], option[1])
		}
	} else {
		args = append(args, "--port", port)
	}
	if s.opts.Unix {
		args = append(args, "--unixsocket", s.socket())
	}
	if s.opts.Password != "" {
		args = append(args, "--requirepass", s.opts.Password)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	args = append(append(args, s.opts.Args...), s.extra...)
	clustered := s.port != 0 && slices.Contains(args, "--cluster-enabled")
	if clustered {
		args = append(args, "--cluster-port", strconv.Itoa(s.port-belowPort))
	}
	switch {
	case s.front != nil && clustered:
		args = append(args, "--cluster-announce-bus-port", s.busPort(), "--bind-source-addr", s.source())
	case s.front != nil:
		args = append(args, "--replica-announce-ip", "127.0.0.1", "--replica-announce-port", s.peerPort())
	}
	return args
}

// tlsOptions are the options of a server over TLS, with their values.
func (s *Server) tlsOptions() [][2]string {
	return [][2]string{
		{"port", "0"}, {"tls-port", strconv.Itoa(s.port)}, {"tls-auth-clients", "no"}, {"tls-ca-cert-file", s.CAFile()},
		{"tls-cert-file", filepath.Join(s.dir, "server.crt")}, {"tls-key-file", filepath.Join(s.dir, "server.key")},
	}
}

// belowPort is how far below a server's port that of its cluster bus is. By
// default it is 10,000 above, where the kernel may have given it to some
// client.
const belowPort = lastPort - firstPort

// socket has a name of one letter, see Start.
func (s *Server) socket() string { return filepath.Join(s.dir, "s") }

// userinfo is the password without a user, as requirepass wants it.
func (s *Server) userinfo() *url.Userinfo {
	if s.opts.Password == "" {
		return nil
	}
	return url.UserPassword("", s.opts.Password)
}

// signal holds the lock, so that it cannot hit a process that Restart is
// replacing.
func (s *Server) signal(send func(*os.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return errors.New("redistest: server is not running")
	}
	if err := send(s.cmd.Process); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	return nil
}

// FindAll returns the servers that a group is made of: those that the
// environment variable REDMUX_SERVERS names, a list in the form of PATH, so
// that a group mixes products and versions as a deployment in the middle of an
// upgrade does; else the one that Find finds. A name that leads nowhere is an
// error, lest a run covers less than it says.
func FindAll() (paths []string, err error) {
	for _, name := range named() {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("redistest: REDMUX_SERVERS: %w", err)
		}
		paths = append(paths, path)
	}
	if len(paths) > 0 {
		return paths, nil
	}
	path, ok := Find()
	if !ok {
		return nil, ErrNoServer
	}
	return []string{path}, nil
}

// named is what REDMUX_SERVERS lists, without its empty elements.
func named() (names []string) {
	for _, name := range filepath.SplitList(os.Getenv("REDMUX_SERVERS")) {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Introduction returns the product ("redis", "valkey", "redict") and its
// version, as the server itself says.
func (s *Server) Introduction() (product, version string, err error) {
	info, err := s.Do("INFO", "server")
	if err != nil {
		return "", "", err
	}
	text, _ := info.(string)
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		// Every product states the version of Redis that it is compatible with;
		// another product states its own version in a further line.
		switch name, ok := strings.CutSuffix(key, "_version"); {
		case ok && name == "redis" && product == "":
			product, version = name, value
		case ok && (name == "valkey" || name == "redict"):
			product, version = name, value
		}
	}
	if product == "" {
		return "", "", fmt.Errorf("redistest: %s does not say what it is", s.opts.Path)
	}
	return product, version, nil
}
