package redlock

import (
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// sealName is where the seal lies, behind the prefix; no resource has this name.
const sealName = "redlock:seal"

// seal is how the nodes' seals are read and written.
func (c *Client) seal() multiplex.Seal {
	key := c.config.Prefix + sealName
	return multiplex.Seal{
		Read: resp.AppendCommand(nil, "GET", key),
		Write: func(value string) []byte {
			return resp.AppendCommand(nil, "EVALSHA", sealScript.digest, "1", key, value)
		},
	}
}
