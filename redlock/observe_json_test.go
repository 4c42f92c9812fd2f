package redlock

import (
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/stretchr/testify/require"
)

// Names are words joined by "_", and every exported field has one: the test
// finds a field that was added to a struct but not to its JSON form.
func TestJSONNames(t *testing.T) {
	for _, v := range []any{NodeStatus{}, NodeChange{}, Stats{}, CallCounts{}, multiplex.NodeCounts{}} {
		kind := reflect.TypeOf(v)
		full := reflect.New(kind).Elem()
		exported := 0
		for i := range kind.NumField() {
			if kind.Field(i).IsExported() {
				redistest.Fill(full.Field(i))
				exported++
			}
		}
		if kind == reflect.TypeFor[NodeStatus]() {
			exported -= 3 // Server, which is not filled; Deaths and Sheds are in Counts
		}
		shown := full.Interface()
		text, err := json.Marshal(shown)
		require.NoError(t, err)
		var names map[string]any
		require.NoError(t, json.Unmarshal(text, &names))
		require.Len(t, names, exported, "%s: %s", kind, text)
		for name := range names {
			require.Regexp(t, regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`), name, kind)
		}
	}
}

func TestJSONUnits(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{NodeChange{Node: 1, Addr: "a:1", State: "up", At: time.Unix(0, 0).UTC()}, `{"node":1,"addr":"a:1","state":"up","at":"1970-01-01T00:00:00Z"}`},
	} {
		text, err := json.Marshal(c.v)
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(text))
	}
	text, err := json.Marshal(NodeStatus{ReplyTime: 1500, Quarantined: true, QuarantineLeft: 2500 * time.Millisecond})
	require.NoError(t, err)
	require.Contains(t, string(text), `"reply_time_us":1.5,`)
	require.Contains(t, string(text), `"quarantine_left_s":2.5,`)
	text, err = json.Marshal(Stats{QuorumTime: 2500})
	require.NoError(t, err)
	require.Contains(t, string(text), `"quorum_time_us":2.5,`)
}

// No two resources, sockets or errors look the same that differ in a byte that
// is no UTF-8.
func TestJSONTellsNamesApartThatAreNotUTF8_R19(t *testing.T) {
	for _, of := range []func(name string) any{
		func(name string) any { return NodeStatus{Err: errors.New(name)} },
		func(name string) any { return NodeChange{Err: errors.New(name)} },
		func(name string) any {
			node, err := conn.ParseURL("unix:///" + url.PathEscape(name))
			require.NoError(t, err)
			return NodeStatus{Addr: node.String()}
		},
	} {
		all := make(map[string]bool)
		names := []string{"caf\xe9", "caf\xe8", `caf\xe9`, "caf\ufffd"}
		for _, name := range names {
			text, err := json.Marshal(of(name))
			require.NoError(t, err)
			require.True(t, json.Valid(text))
			all[string(text)] = true
		}
		require.Len(t, all, len(names), "%v", all)
	}
}
