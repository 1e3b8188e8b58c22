package cloud

import (
	"context"
	"errors"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
)

// Catalog is what EC2 offers in the region: instance types, and the zones of each. It takes about
// 20 requests, and no longer than three questions may.
func (c *Client) Catalog(ctx context.Context) (*offers.Catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*c.timeout)
	defer cancel()
	found, err := offers.Read(ctx, c.ec2, c.region)
	var call *offers.CallError
	if errors.As(err, &call) {
		return nil, c.named(call.Action, call.Err)
	}
	return found, err
}
