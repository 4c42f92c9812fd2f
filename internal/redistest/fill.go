package redistest

import (
	"errors"
	"reflect"
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
