package soak

import (
	"context"
	"fmt"
)

// editByHand changes a pool in the cluster, as a user in a hurry does.
func (s *soak) editByHand(ctx context.Context) (string, error) {
	name, weight := s.pick(s.fleet.poolNames()), 1+s.draw.IntN(99)
	patch := fmt.Appendf(nil, `{"spec":{"weight":%d}}`, weight)
	s.history.edit(name, weight)
	s.faults.disturb()
	_, err := s.sandbox.Kube.Kubectl(ctx, nil, "patch", "nodepool", name, "--type=merge", "-p", string(patch), "--field-manager=kubectl-edit")
	if err != nil {
		return fmt.Sprintf("of pool %s, which is not there yet", name), nil //nolint:nilerr // Git may be ahead of the cluster
	}
	return fmt.Sprintf("the weight of pool %s: %d", name, weight), nil
}
