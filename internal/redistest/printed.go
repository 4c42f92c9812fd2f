package redistest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// ExportedTypes returns the names of the exported types that the Go files of a
// folder declare, without its tests.
func ExportedTypes(t testing.TB, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			declared, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range declared.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() {
					names = append(names, s.Name.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A Specimen is a value of an exported type, which may hold secrets.
type Specimen struct {
	Value any
	// Open is set if the user fills in the type's fields. Then nothing can keep
	// package fmt from showing them where it calls no methods: in an unexported
	// field of a struct, and with the verbs %w and %p.
	Open bool
}

// ShowsNone fails if package fmt, log/slog or encoding/json show one of the
// secrets when they print a value: with each verb and flag, by itself, and in
// whatever a program puts it.
//
// Package fmt reads fields without their locks, which the race detector reports
// of a value that is in use. So nothing is printed under it.
func (s Specimen) ShowsNone(t testing.TB, secrets ...string) {
	t.Helper()
	if Raceful {
		t.Skip("skipped: package fmt reads fields without their locks, which the race detector reports")
	}
	s.PrintsNone(t, secrets...)
	for place, v := range s.places() {
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("text", "value", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "value", v)
		requireNone(t, log.String(), secrets, "slog of %T %s", s.Value, place)
		text, err := json.Marshal(v)
		requireNone(t, fmt.Sprint(string(text), err), secrets, "JSON of %T %s", s.Value, place)
	}
}

// PrintsNone is ShowsNone for package fmt alone.
func (s Specimen) PrintsNone(t testing.TB, secrets ...string) {
	t.Helper()
	if Raceful {
		t.Skip("skipped: package fmt reads fields without their locks, which the race detector reports")
	}
	for place, v := range s.places() {
		for _, format := range s.formats() {
			requireNone(t, fmt.Sprintf(format, v), secrets, "%s of %T %s", format, s.Value, place)
		}
	}
}

// formats are all verbs, and one that is none, with the flags that change what
// they print.
func (s Specimen) formats() (all []string) {
	for _, verb := range "vTtbcdoOqxXUeEfFgGspwz" {
		if s.Open && (verb == 'w' || verb == 'p') {
			continue
		}
		for _, flags := range []string{"", "+", "#", " ", "-60.40"} {
			all = append(all, "%"+flags+string(verb))
		}
	}
	return all
}

// A failure is a user's error that keeps a value.
type failure struct{ Value any }

func (failure) Error() string { return "it has failed" }

// places returns the value in what a program may put it.
func (s Specimen) places() map[string]any {
	v := s.Value
	places := map[string]any{
		"itself":         v,
		"in a slice":     []any{v},
		"in an array":    [1]any{v},
		"in a map":       map[string]any{"key": v},
		"in a field":     struct{ Value any }{v},
		"in a pointer":   &struct{ Value any }{v},
		"deeper":         map[string]any{"key": []any{&v, struct{ Value any }{v}}},
		"in an error":    failure{v},
		"in its text":    fmt.Errorf("failed: %v, %+v, %#v, %s", v, v, v, v),
		"behind pointer": behind(v),
	}
	if reflect.TypeOf(v).Comparable() {
		places["as a key"] = map[any]int{v: 1}
	}
	if !s.Open {
		places["in an unexported field"] = struct{ value any }{v}
		places["in one, behind a pointer"] = &struct{ value any }{v}
		places["in the chain of an error"] = fmt.Errorf("failed: %w", errors.Join(failure{v}, &failure{v}))
		places["in one, deeper"] = struct{ value map[string]any }{map[string]any{"key": []any{v}}}
		places["in one of an error"] = fmt.Errorf("failed: %w", &struct {
			failure
			value any
		}{value: v})
		places["in one, behind pointer"] = struct{ value any }{behind(v)}
	}
	return places
}

// behind returns a pointer to a copy of a value, or of a pointer.
func behind(v any) any {
	p := reflect.New(reflect.TypeOf(v))
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface()
}

// requireNone fails if a text shows a secret as it is, or its bytes.
func requireNone(t testing.TB, text string, secrets []string, how string, args ...any) {
	t.Helper()
	for _, secret := range secrets {
		b := []byte(secret[:min(len(secret), 5)])
		list := strings.Trim(fmt.Sprint(b), "[]")
		for _, form := range []string{
			secret, hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)), fmt.Sprintf("% x", b),
			list, strings.ReplaceAll(list, " ", ", "), strings.Trim(fmt.Sprintf("%#v", b), "[]byte{}"),
		} {
			if strings.Contains(text, form) {
				t.Fatalf("a secret is shown (R27): %s shows %q as %q: %.600s", fmt.Sprintf(how, args...), secret, form, text)
			}
		}
	}
}
