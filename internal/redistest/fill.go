package redistest

import (
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"testing"
	"time"
)

// Fill sets a field to a non-zero value, so that its JSON form is not left out.
func Fill(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[error]():
		v.Set(reflect.ValueOf(errors.New("refused")))
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), reflect.ValueOf(uint64(1)))
	}
}

// JSONNames checks that the names of a struct's JSON form are words joined by
// "_", and that each exported field has one but so many: it finds a field that
// was added to a struct and not to its JSON form.
func JSONNames(t testing.TB, v any, but int) {
	t.Helper()
	full, exported := reflect.New(reflect.TypeOf(v)).Elem(), -but
	for i := range full.NumField() {
		if full.Type().Field(i).IsExported() {
			Fill(full.Field(i))
			exported++
		}
	}
	text, err := json.Marshal(full.Interface())
	names := make(map[string]any)
	if err = errors.Join(err, json.Unmarshal(text, &names)); err != nil || len(names) != exported {
		t.Errorf("%T has %d names, and not %d: %s %v", v, len(names), exported, text, err)
	}
	for name := range names {
		if !jsonName.MatchString(name) {
			t.Errorf("%T: %q", v, name)
		}
	}
}

var jsonName = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// JSONTellsApart checks that no two names look the same in JSON that differ in a
// byte that is no UTF-8.
func JSONTellsApart(t testing.TB, of func(name string) any) {
	t.Helper()
	all := make(map[string]bool)
	names := []string{"caf\xe9", "caf\xe8", `caf\xe9`, "caf\ufffd"}
	for _, name := range names {
		text, err := json.Marshal(of(name))
		if err != nil || !json.Valid(text) {
			t.Errorf("%q: %s %v", name, text, err)
		}
		all[string(text)] = true
	}
	if len(all) != len(names) {
		t.Errorf("%d of %d names: %v", len(all), len(names), all)
	}
}
