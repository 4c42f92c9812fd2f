package load

import (
	"regexp"
	"strings"
)

// credentials precede the last @ of the part of a URL between // and the path.
var credentials = regexp.MustCompile(`//[^/?#]*@`)

// titleOf returns the command line without credentials in URLs (R27).
func titleOf(args []string) string {
	all := []string{"loadgen"}
	for _, arg := range args {
		all = append(all, credentials.ReplaceAllString(arg, "//"))
	}
	return strings.Join(all, " ")
}
