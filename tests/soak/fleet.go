package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// fleet is the content of the repository at one commit.
type fleet struct {
	pools   map[string]pool
	classes map[string]class
	// If broken, one file does not parse, so that none applies. If emptied, the files of the pools are missing, and the
	// guard holds all of them.
	broken, emptied bool
	// notes is the content of a file that is not one of the inputs.
	notes int
}

// pool is the changing part of a NodePool. Only its class makes Karpenter mark nodes as drifted.
type pool struct {
	class       string
	cpu, weight int
}

// class is the changing part of an EC2NodeClass; any of it makes Karpenter mark nodes as drifted.
type class struct{ team string }

func (f fleet) clone() fleet {
	f.pools, f.classes = maps.Clone(f.pools), maps.Clone(f.classes)
	return f
}

// amiss reports whether the daemon must not follow the repository. The previous state still applies.
func (f fleet) amiss() bool { return f.broken || f.emptied }

// has reports whether the repository contains an entry.
func (f fleet) has(kind, name string) bool {
	switch kind {
	case nodePools:
		_, ok := f.pools[name]
		return ok
	case nodeClasses:
		_, ok := f.classes[name]
		return ok
	}
	return false
}

// sameNodes reports whether a pool's nodes are still valid after other became f: the pool is in both and its nodes come
// from an equal class.
func (f fleet) sameNodes(other fleet, name string) bool {
	before, had := other.pools[name]
	after, has := f.pools[name]
	return had && has && before.class == after.class && other.classes[before.class] == f.classes[after.class]
}

// unused returns the classes that no pool references, in order.
func (f fleet) unused() []string {
	used := map[string]bool{}
	for _, p := range f.pools {
		used[p.class] = true
	}
	return slices.DeleteFunc(f.classNames(), func(name string) bool { return used[name] })
}

func (f fleet) poolNames() []string  { return slices.Sorted(maps.Keys(f.pools)) }
func (f fleet) classNames() []string { return slices.Sorted(maps.Keys(f.classes)) }

// place is where a repository's charts come from and its cluster.
type place struct{ cluster, region, charts string }

// files returns those of the repository, by name.
func (f fleet) files(at place) map[string]string {
	files := map[string]string{
		"plumbline.yaml": fmt.Sprintf(`apiVersion: config.plumbline.dev/v1alpha1
kind: Karpenter
cluster: {name: %s, region: %s}
version: %s
repository: %s
values: {replicas: 1}
nodes: [./nodes]
`, at.cluster, at.region, binaries.KarpenterVersion, at.charts),
	}
	for name, p := range f.pools {
		if f.emptied {
			break
		}
		files["nodes/"+name+".yaml"] = poolYAML(name, p)
	}
	for name, c := range f.classes {
		files["nodes/class-"+name+".yaml"] = classYAML(name, c)
	}
	if f.broken {
		files["nodes/broken.yaml"] = "kind: NodePool\n  spec: [\n"
	}
	if f.notes > 0 {
		files["NOTES.md"] = strings.Repeat("A note.\n", f.notes)
	}
	return files
}

func poolYAML(name string, p pool) string {
	return fmt.Sprintf(`apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  weight: %d
  limits: {cpu: "%d"}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %s}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}
      expireAfter: Never
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}
`, name, p.weight, p.cpu, p.class)
}

func classYAML(name string, c class) string {
	return fmt.Sprintf(`apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s}
spec:
  role: KarpenterNodeRole-${CLUSTER_NAME}
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: "${CLUSTER_NAME}"}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: "${CLUSTER_NAME}"}}]
  tags: {team: %s}
`, name, c.team)
}
