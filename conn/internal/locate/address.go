package locate

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"github.com/redmux/redmux/internal/errtext"
)

// longestHost bounds the name of a host. That of DNS has at most 253 bytes.
const longestHost = 255

// errHost is the error of an answer without a host.
var errHost = errors.New("it names no host")

// Address returns host:port of a server that was named in an answer. What no
// URL could name is an error.
func Address(host, port string) (string, error) {
	switch {
	case host == "":
		return "", errHost
	case len(host) > longestHost || strings.IndexFunc(host, NeverInHost) >= 0 || strings.ContainsAny(host, ":%") && !isIPv6(host):
		return "", fmt.Errorf("it names the host %.60q", errtext.Printable(host))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("it names the port %.10q", errtext.Printable(port))
	}
	return net.JoinHostPort(host, port), nil
}

// isIPv6 reports whether a host is an address of IPv6, perhaps with a zone.
func isIPv6(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Is6()
}

// NeverInHost reports whether a character is in no name and no address. The
// colon and the percent sign are in those of IPv6. Characters beyond ASCII may
// be in the names of a NetDial, but not those that cannot be seen, such as the
// blanks of a web page.
func NeverInHost(c rune) bool {
	letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	if c >= 0x80 {
		return c == unicode.ReplacementChar || !unicode.IsPrint(c)
	}
	return !letter && !strings.ContainsRune("-._:%", c)
}
