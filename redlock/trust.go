package redlock

import (
	"fmt"
	"slices"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// What this package adds to the delayed restart (R23), which package multiplex keeps: the limit for TTLs, the key and the
// script of the seal, and which nodes are exempt.

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

// durable are the nodes that Config.Durable names.
func (config *Config) durable() (multiplex.Set, error) {
	var nodes multiplex.Set
	for i, url := range config.Durable {
		node := slices.Index(config.Nodes, url)
		if node < 0 {
			return 0, fmt.Errorf("the entry Durable[%d] is none of the Nodes", i) // it may hold a password (R27)
		}
		nodes |= 1 << node
	}
	return nodes, nil
}

// trust completes the group's configuration with all that concerns R22 and R23.
func (c *Client) trust(group *multiplex.Config) error {
	config := &c.config
	durable, err := config.durable()
	if err != nil {
		return err
	}
	group.MaxTTL, group.Seal, group.Durable, group.New = config.MaxTTL, c.seal(), durable, config.NewDeployment
	config.MaxTTL = pure.WholeMilliseconds(config.MaxTTL) // the group looks at it as it was given
	allow := config.Allow
	group.Allow = multiplex.Allow{
		SameServer: allow.SameServer, Replica: allow.Replica, Cluster: allow.Cluster, Sentinel: allow.Sentinel,
		Eviction: allow.Eviction, OtherMaxTTL: allow.OtherMaxTTL,
	}
	group.Remarks = c.remarks
	return nil
}
