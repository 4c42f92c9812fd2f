package admin

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The names, units and texts of the JSON forms.

func TestJSONOfAnInspection(t *testing.T) {
	for _, v := range []any{Inspection{}, InspectedNode{}, Participant{}} {
		full := reflect.New(reflect.TypeOf(v)).Elem()
		for i := range full.NumField() {
			redistest.Fill(full.Field(i))
		}
		text, err := json.Marshal(full.Interface())
		require.NoError(t, err)
		var names map[string]any
		require.NoError(t, json.Unmarshal(text, &names))
		require.Len(t, names, full.NumField(), "%T: %s", v, text)
		for name := range names {
			require.Regexp(t, "^[a-z]+(_[a-z]+)*$", name, "%T", v)
		}
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{InspectedNode{Addr: "a:1", Holder: "h", TTL: 1500 * time.Microsecond}, `{"addr":"a:1","holder":"h","ttl_ms":1.5}`},
		{InspectedNode{Addr: "a:1", TTL: NoExpiry, Err: errors.New("down")}, `{"addr":"a:1","ttl_ms":-1,"error":"down"}`},
		{
			Inspection{Resource: "r", State: StateHeld, Holder: "h", TTL: time.Second, Agree: 2, Nodes: []InspectedNode{}},
			`{"resource":"r","state":"held","holder":"h","ttl_ms":1000,"agree":2,"nodes":[]}`,
		},
	} {
		text, err := json.Marshal(c.v)
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(text))
	}
}

// No two resources or errors look the same that differ in a byte that is no
// UTF-8.
func TestJSONOfAnInspectionTellsNamesApart_R19(t *testing.T) {
	for _, of := range []func(name string) any{
		func(name string) any { return Inspection{Resource: name} },
		func(name string) any { return InspectedNode{Err: errors.New(name)} },
	} {
		all := make(map[string]bool)
		names := []string{"caf\xe9", "caf\xe8", `caf\xe9`, "caf\ufffd"}
		for _, name := range names {
			text, err := json.Marshal(of(name))
			require.NoError(t, err)
			all[string(text)] = true
		}
		require.Len(t, all, len(names), "%v", all)
	}
}
