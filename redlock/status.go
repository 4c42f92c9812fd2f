package redlock

import "encoding/json"

// Errors have no fields to show, so that JSON would make {} of them: what is meant to be shown has their text instead.

// MarshalJSON shows the error as text.
func (s NodeStatus) MarshalJSON() ([]byte, error) {
	type plain NodeStatus
	return json.Marshal(struct {
		plain
		Err string `json:",omitempty"`
	}{plain(s), textOf(s.Err)})
}

// MarshalJSON shows the error as text.
func (c NodeChange) MarshalJSON() ([]byte, error) {
	type plain NodeChange
	return json.Marshal(struct {
		plain
		Err string `json:",omitempty"`
	}{plain(c), textOf(c.Err)})
}

// MarshalJSON shows the error as text.
func (n InspectedNode) MarshalJSON() ([]byte, error) {
	type plain InspectedNode
	return json.Marshal(struct {
		plain
		Err string `json:",omitempty"`
	}{plain(n), textOf(n.Err)})
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
