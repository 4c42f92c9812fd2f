package redistest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

var contextType = reflect.TypeFor[context.Context]()

// FailsAtTheDoor calls f, and fails unless it returns, or panics with a text
// that begins with a package's name. It returns the text of the panic.
func FailsAtTheDoor(t testing.TB, name, prefix string, f func()) string {
	t.Helper()
	said := make(chan string, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				said <- fmt.Sprint(v)
			}
			close(said)
		}()
		f()
	}()
	select {
	case text := <-said:
		if text != "" && !strings.HasPrefix(text, prefix) {
			t.Fatalf("%s panics with %q", name, text)
		}
		return text
	case <-time.After(5 * time.Second):
		t.Fatalf("%s waits", name)
		return ""
	}
}

// MethodsFailAtTheDoor calls the methods of a value, with the given context and
// other arguments zero. Of a value that was made, only those methods are called
// that have a context, or a function if a context is given, and each must panic
// or return an error.
func MethodsFailAtTheDoor(t testing.TB, prefix string, v any, ctx context.Context, made bool) {
	t.Helper()
	value := reflect.ValueOf(v)
	for i := range value.NumMethod() {
		method := value.Method(i)
		name := fmt.Sprintf("%T.%s", v, value.Type().Method(i).Name)
		wrong := !made
		var args []reflect.Value
		for a := range method.Type().NumIn() {
			in := method.Type().In(a)
			arg := reflect.Zero(in)
			switch {
			case in == contextType && ctx != nil:
				arg = reflect.ValueOf(&ctx).Elem()
			case in == contextType, in.Kind() == reflect.Func && ctx != nil:
				wrong = true
			}
			args = append(args, arg)
		}
		// Package fmt alone calls Format. A slice of no arguments is none.
		if !wrong || strings.HasSuffix(name, ".Format") {
			continue
		}
		call := method.Call
		if method.Type().IsVariadic() {
			call = method.CallSlice
		}
		var results []reflect.Value
		text := FailsAtTheDoor(t, name, prefix, func() { results = call(args) })
		if made && text == "" {
			if _, refused := results[len(results)-1].Interface().(error); !refused {
				t.Fatalf("%s accepts what is nil", name)
			}
		}
	}
	if !made {
		FailsAtTheDoor(t, fmt.Sprintf("printing %T", v), prefix, func() {
			if text := fmt.Sprintf("%v %+v %s", v, v, v); strings.Contains(text, "PANIC") {
				panic(text)
			}
		})
	}
}
