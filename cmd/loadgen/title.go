package main

import (
	"regexp"
	"strings"
)

// credentials stand in a URL before the last @ of what lies between // and the
// path.
var credentials = regexp.MustCompile(`//[^/?#]*@`)

// titleOf is the command line as it may be shown: URLs without credentials (R27).
func titleOf(args []string) string {
	all := []string{"loadgen"}
	for _, arg := range args {
		all = append(all, credentials.ReplaceAllString(arg, "//"))
	}
	return strings.Join(all, " ")
}
