package errtext

import (
	"encoding/json"
	"testing"
)

// No two names look the same, also in JSON.
func TestName(t *testing.T) {
	all := make(map[string]bool)
	for name, want := range map[string]string{
		"": "", "café\x00\n": "café\x00\n", "caf\xe9": `caf\xe9`, "caf\xe8": `caf\xe8`, `caf\xe9`: `caf\x5cxe9`, `caf\x5cxe9`: `caf\x5cx5cxe9`,
		"\xff\xfeé\xe2\x82": `\xff\xfeé\xe2\x82`, "\ufffd": "\ufffd", `a\b`: `a\b`, `\`: `\`, "\\\xff": `\\xff`, `\\xff`: `\\x5cxff`,
	} {
		got := Name(name)
		if got != want {
			t.Errorf("%q: %q, not %q", name, got, want)
		}
		text, err := json.Marshal(got)
		if err != nil || all[string(text)] {
			t.Errorf("%q: %s, as another name: %v", name, text, err)
		}
		all[string(text)] = true
	}
}
