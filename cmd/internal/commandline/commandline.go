// Package commandline reads values of command lines and of the environment as
// they are, byte for byte. Names of files and of resources, and passwords, are
// bytes, which need not be UTF-8.
package commandline

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// Bytes has package kong take texts as they are. By itself it passes them
// through JSON, which replaces what is not UTF-8: a command would work on
// another file than the one that was named.
func Bytes() kong.Option {
	return kong.KindMapper(reflect.String, kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		text, err := Text(ctx, "string")
		target.SetString(text)
		return err
	}))
}

// Text returns the next value as it is. of names what it is, for the error.
func Text(ctx *kong.DecodeContext, of string) (string, error) {
	word, err := ctx.Scan.PopValue(of)
	if err != nil {
		return "", err
	}
	text, ok := word.Value.(string)
	if !ok {
		return "", errors.New("it is not a text")
	}
	return text, nil
}

var errMissing = errors.New("there is no URL between two commas, or before or behind one: is a variable not set?")

// SplitURLs splits lists as they are in a crontab, a YAML block or a
// here-document: with commas, blanks and line breaks between the URLs. A comma
// after a backslash belongs to the URL, and so does one between the hosts of
// redis+sentinel: and redis+cluster:. Nothing between two commas is an error,
// since a variable that is not set would make another deployment of the rest.
// So is nothing before the first comma, and behind the last one, unless the list
// has several lines.
func SplitURLs(lists ...string) (urls []string, err error) {
	for _, list := range lists {
		between := strings.Trim(list, ", \t\r\n") != "" // two commas, but for blanks
		for _, word := range strings.Fields(list) {
			for word != "" {
				url, rest, comma := cutURL(word)
				switch {
				case url != "":
					urls = append(urls, url)
				case between:
					return nil, errMissing
				}
				word, between = rest, comma
			}
		}
		if between && urls != nil && !strings.Contains(list, "\n") {
			return nil, errMissing
		}
	}
	return urls, nil
}

// cutURL returns what is before the first comma, and what is behind it. It goes
// by bytes: a password need not be UTF-8.
func cutURL(word string) (url, rest string, comma bool) {
	for i := 0; i < len(word); i++ {
		switch {
		case word[i] == ',' && betweenHosts(word[:i], word[i+1:]):
		case word[i] == ',':
			return url, word[i+1:], true
		case word[i] == '\\' && i+1 < len(word) && word[i+1] == ',':
			i++
		case word[i] == '\\' && i+1 < len(word): // whatever it stands before, also another one
			url += `\`
			i++
		}
		url += word[i : i+1]
	}
	return url, "", false
}

// betweenHosts reports whether a comma stands between two hosts of one URL, and
// not between two URLs.
func betweenHosts(url, rest string) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(url), "://")
	next, _, _ := strings.Cut(rest, ",")
	lists := strings.HasSuffix(scheme, "+sentinel") || strings.HasSuffix(scheme, "+cluster")
	return lists && next != "" && !strings.Contains(next, ":/")
}

// Empty returns an error if a flag or an argument that was given on the command
// line has an empty text, as of shell variables that are not set: without its
// prefix, a resource is another lock, and "$A $B" is a name of one blank. The
// words of a command are its own. An empty variable of the environment is as
// good as none.
func Empty(line *kong.Context) error {
	for _, part := range line.Path {
		switch {
		case part.Flag != nil && isEmpty(part.Flag.Target):
			return fmt.Errorf("--%s is empty: leave it out, or set the variable that it stands for", part.Flag.Name)
		case part.Positional != nil && !part.Positional.Passthrough && isEmpty(part.Positional.Target):
			return fmt.Errorf("the %s is empty: set the variable that it stands for", part.Positional.Name)
		}
	}
	return nil
}

// isEmpty reports whether a value is a text without a word, or has one.
func isEmpty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.String:
		return strings.TrimSpace(value.String()) == ""
	case reflect.Pointer:
		return isEmpty(value.Elem())
	case reflect.Slice:
		for _, element := range value.Seq2() {
			if isEmpty(element) {
				return true
			}
		}
	}
	return false
}
