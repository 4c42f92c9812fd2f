package probe

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// A Seed is what a sentinel, or a server of a cluster, said when it was asked
// for the node's server.
type Seed struct {
	Addr     string
	Sentinel bool   // otherwise it is a server of a cluster
	Err      error  // why there was no answer, or none of use
	Master   string // the address of the node's server
	// Watch holds the known fields of SENTINEL MASTER. It is nil if the user may
	// not ask.
	Watch Lines
	// Quorum is what SENTINEL CKQUORUM replied, "OK" or an error, and "" if the
	// user may not ask.
	Quorum string
}

// watched are the fields of SENTINEL MASTER that are kept.
var watched = map[string]bool{"num-other-sentinels": true, "quorum": true, "down-after-milliseconds": true}

var errNoMaster = errors.New("it knows no master of this name, or none that has the slot")

// askSeed asks a seed for the node's server, and for all others that it knows.
func (p *Probe) askSeed(ctx context.Context, addr string) (s Seed, named []Announced) {
	s.Addr, s.Sentinel = addr, !p.endpoint.InCluster()
	credentials := p.Credentials
	if s.Sentinel {
		credentials = nil
	}
	c, err := p.dialBeside(ctx, p.endpoint.Seed(addr), credentials)
	if err != nil {
		s.Err = err
		return s, nil
	}
	defer c.Close()
	questions := s.askServer(c, pure.Slot(p.prefix), &named)
	if s.Sentinel {
		questions = s.askSentinel(c, p.endpoint.Seeds.Master, &named)
	}
	if err := exchange(ctx, c, questions...); err != nil {
		s.Err = err
	}
	if s.Err == nil && s.Master == "" {
		s.Err = errNoMaster
	}
	return s, named
}

// askSentinel returns what is asked of a sentinel. Only the first question is
// one that every user of locks may ask.
func (s *Seed) askSentinel(c *conn.Conn, master string, named *[]Announced) []Question {
	by := "the sentinel " + s.Addr
	return []Question{
		{resp.AppendCommand(nil, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", master), func(v resp.Value) error {
			s.Err = c.ServerError(v)
			if parts := texts(v); len(parts) == 2 {
				s.Master = net.JoinHostPort(printable(parts[0]), printable(parts[1]))
			}
			return nil
		}},
		question(func(v resp.Value) {
			fields := readFields(v)
			s.Watch = Lines{}
			for name, value := range fields {
				if watched[name] {
					s.Watch[name] = printable(value)
				}
			}
			*named = append(*named, announcedBy(by, fields))
		}, "SENTINEL", "MASTER", master),
		question(func(v resp.Value) {
			for replica := range v.Elements() {
				if fields := readFields(replica); fields["ip"] != "" {
					*named = append(*named, announcedBy(by, fields))
				}
			}
		}, "SENTINEL", "REPLICAS", master),
		{resp.AppendCommand(nil, "SENTINEL", "CKQUORUM", master), func(v resp.Value) error {
			switch {
			case !v.IsError():
				s.Quorum = "OK"
			case string(v.ErrorPrefix()) == "NOQUORUM":
				s.Quorum = printable(string(v.Bytes()))
			}
			return nil
		}},
	}
}

// announcedBy returns the server that fields of a sentinel are about.
func announcedBy(by string, fields map[string]string) Announced {
	a := announced(by, fields["ip"], fields["port"], fields["runid"])
	a.Down = strings.Contains(fields["flags"], "s_down")
	return a
}

// askServer returns what is asked of a server of a cluster.
func (s *Seed) askServer(c *conn.Conn, slot uint16, named *[]Announced) []Question {
	host, _, _ := net.SplitHostPort(s.Addr)
	return []Question{{resp.AppendCommand(nil, "CLUSTER", "SLOTS"), func(v resp.Value) error {
		s.Err = c.ServerError(v)
		for shard := range v.Elements() {
			i, first, last := 0, int64(-1), int64(-1)
			for e := range shard.Elements() {
				switch i {
				case 0:
					first, _ = e.Int64()
				case 1:
					last, _ = e.Int64()
				default:
					server := readServer(e, s.Addr, host)
					if i == 2 && first <= int64(slot) && int64(slot) <= last {
						s.Master = server.Addr
					}
					*named = append(*named, server)
				}
				i++
			}
		}
		return nil
	}}}
}

// readServer takes a server in the answer to CLUSTER SLOTS: its host, its port
// and its id. The host is null or empty if it is the one that was asked.
func readServer(v resp.Value, by, asked string) Announced {
	i, host, port, id := 0, asked, int64(0), ""
	for e := range v.Elements() {
		switch i {
		case 0:
			if said := string(e.Bytes()); said != "" {
				host = said
			}
		case 1:
			port, _ = e.Int64()
		case 2:
			id = string(e.Bytes())
		}
		i++
	}
	return announced(by, host, strconv.FormatInt(port, 10), id)
}

// askMyID asks a server of a cluster for its id.
func askMyID(id *string) Question {
	return question(func(v resp.Value) { *id = printable(string(v.Bytes())) }, "CLUSTER", "MYID")
}

// texts returns the elements of an array of texts.
func texts(v resp.Value) (all []string) {
	for e := range v.Elements() {
		all = append(all, string(e.Bytes()))
	}
	return all
}

// readFields returns the fields of a sentinel's answer, a list of names and
// values, or in RESP3 a map.
func readFields(v resp.Value) map[string]string {
	all := map[string]string{}
	if v.Type() != resp.Map && (v.Type() != resp.Array || v.IsNull() || v.Len()%2 != 0) {
		return all
	}
	for name, value := range v.Pairs() {
		all[string(name.Bytes())] = string(value.Bytes())
	}
	return all
}
