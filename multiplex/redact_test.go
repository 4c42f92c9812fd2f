package multiplex

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redmux/redmux/conn"
)

// No format verb shows a password, a key or a token (R27).
func TestNothingSecretIsPrinted(t *testing.T) {
	config := Config{Nodes: []conn.Config{{Endpoint: conn.Endpoint{Network: "tcp", Addr: "h:1", Password: "pa55word"}}}}
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.group.config.Nodes[0].Endpoint.Password = "pa55word"
		secret := []byte("pa55word")
		for _, secretive := range []any{
			c.group, config, &config, raw(secret), &Command{Encoded: raw(secret)}, Claim{Bytes: secret}, &Claim{Bytes: secret},
		} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%q", "%x"} {
				text := fmt.Sprintf(verb, secretive)
				assert.NotContains(t, text, "pa55word", "%s of %T", verb, secretive)
				assert.NotContains(t, text, "112 97 53 53", "%s of %T, as bytes", verb, secretive)
				assert.NotContains(t, text, "7061353577", "%s of %T, as hex", verb, secretive)
			}
		}
	})
}
