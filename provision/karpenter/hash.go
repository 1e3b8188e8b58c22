package karpenter

import (
	"fmt"

	"github.com/Masterminds/semver/v3"
)

// HashChange is a hash version that an upgrade changes. The controller then
// writes the new hash on every NodeClaim that is not drifted already, and
// replaces none for it: KPA pkg/controllers/nodeclass/hash/controller.go and KC
// pkg/controllers/nodepool/hash/controller.go, updateNodeClaimHash.
type HashChange struct {
	Kind string `json:"kind"`
	From string `json:"from"`
	To   string `json:"to"`
}

// String says what happens to nodes.
func (c HashChange) String() string {
	return fmt.Sprintf("hash of %s %s → %s: nodes are annotated again, not replaced; those drifted already stay so", c.Kind, c.From, c.To)
}

const (
	nodePool     = "NodePool"
	ec2NodeClass = "EC2NodeClass"
)

// nodePoolHash is NodePoolHashVersion in KC pkg/apis/v1/nodepool.go, for 0.3x in
// pkg/apis/v1beta1, of the core that each tag's go.mod names.
var nodePoolHash = []row[string]{
	{"0.36.0", "v2"},
	{"1.0.0", "v3"},
}

// ec2NodeClassHash is EC2NodeClassHashVersion in KPA pkg/apis/v1/ec2nodeclass.go,
// for 0.3x in pkg/apis/v1beta1. The guide says of 1.12, which hashes the CA bundle
// too, that nodes drift; the code annotates them again, as at each other change.
var ec2NodeClassHash = []row[string]{
	{"0.36.0", "v2"},
	{"1.0.0", "v3"},
	{"1.1.0", "v4"},
	{"1.12.0", "v5"},
}

// hashChanges are those of a hop; none where the tables do not know a version.
func hashChanges(from, to *semver.Version) []HashChange {
	if !known(from) || !known(to) {
		return nil
	}
	var found []HashChange
	for _, of := range []struct {
		kind  string
		table []row[string]
	}{{nodePool, nodePoolHash}, {ec2NodeClass, ec2NodeClassHash}} {
		before, knownBefore := at(of.table, from)
		after, knownAfter := at(of.table, to)
		if knownBefore && knownAfter && before != after {
			found = append(found, HashChange{Kind: of.kind, From: before, To: after})
		}
	}
	return found
}
