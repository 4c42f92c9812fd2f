package redistest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A node that was taught knows each script that there is. That it does the same
// is compared by TestScripts of package redlocktest.
func TestEveryScriptIsKnown(t *testing.T) {
	n := NewNode(NodeConfig{})
	defer n.Close()
	n.Teach()
	files, err := filepath.Glob("../lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotNil(t, n.scripts[SHA1(string(source))], file)
	}
	require.Len(t, n.scripts, len(files))
}
