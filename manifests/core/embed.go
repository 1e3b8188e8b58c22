// Package core contains the policy that limits what plumbline itself may change of NodeSyncs, as it is installed, to
// compare a cluster with it.
package core

import _ "embed"

//go:embed nodesyncs.yaml
var nodeSyncs string

// Limits returns the policy and its binding, as a YAML file. It is installed with the right that it limits: without the
// deletion guard, too.
func Limits() string { return nodeSyncs }
