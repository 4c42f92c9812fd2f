package pure

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is watched is a run of the server with one replication history (R23).
func TestProcessName_R23(t *testing.T) {
	for name, c := range map[string]struct{ run, history, want string }{
		"both":                        {"a", "h", "a:h"},
		"promoted":                    {"a", "j:h:7", "a:j:h:7"},
		"restarted, with its history": {"b", "h", "b:h"},
		"the history is not told":     {"a", "", "a"},
		"a history that is no word":   {"a", "h j", "a"},
		"the run id may not be asked": {"", "h", ""},
	} {
		assert.Equal(t, c.want, ProcessName(c.run, c.history), name)
	}
}
