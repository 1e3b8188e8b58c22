package bench

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// folder is where the definitions are in the repository.
const folder = "clusters/bench"

// fleet is what Git says. Its numbers are what a commit changes.
type fleet struct {
	limits []int // of each pair
}

func newFleet(objects int) *fleet {
	f := &fleet{limits: make([]int, objects/2)}
	for i := range f.limits {
		f.limits[i] = 100
	}
	return f
}

// changeOne raises the limit of one NodePool and returns its place.
func (f *fleet) changeOne(i int) int {
	i %= len(f.limits)
	f.limits[i]++
	return i
}

// changeAll changes every NodePool and every EC2NodeClass.
func (f *fleet) changeAll() {
	for i := range f.limits {
		f.limits[i] += 1000
	}
}

// definition is one object.
type definition struct {
	kind schema.GroupVersionResource
	name string
	// content is the object in YAML.
	content string
}

// file is the definition's in the repository.
func (d definition) file() string {
	return fmt.Sprintf("%s/nodes/%s-%s.yaml", folder, d.kind.Resource, d.name)
}

// json is the definition as a body of a request.
func (d definition) json() ([]byte, error) {
	body, err := yaml.YAMLToJSON([]byte(d.content))
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", d.kind.Resource, d.name, err)
	}
	return body, nil
}

// pools and classes are all definitions of one kind. prefix keeps those of the
// raw apply apart from those in Git.
func (f *fleet) pools(prefix string) []definition {
	all := make([]definition, len(f.limits))
	for i := range all {
		all[i] = f.pool(prefix, i)
	}
	return all
}

func (f *fleet) classes(prefix string) []definition {
	all := make([]definition, len(f.limits))
	for i := range all {
		all[i] = f.class(prefix, i)
	}
	return all
}

func (f *fleet) pool(prefix string, i int) definition {
	name := fmt.Sprintf("%spair-%04d", prefix, i)
	return definition{kind: nodePools, name: name, content: fmt.Sprintf(poolYAML, name, i%100+1, f.limits[i], name)}
}

// class changes with the thousands of the limit alone: a limit that is raised by
// one is a change of the pool alone.
func (f *fleet) class(prefix string, i int) definition {
	name := fmt.Sprintf("%spair-%04d", prefix, i)
	return definition{kind: nodeClasses, name: name, content: fmt.Sprintf(classYAML, name, f.limits[i]/1000)}
}

const karpenterYAML = `apiVersion: config.plumbline.dev/v1alpha1
kind: Karpenter
cluster: {name: %s, region: %s}
management: External
nodes: [./nodes]
`

const poolYAML = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: %s
spec:
  weight: %d
  limits: {cpu: "%d"}
  template:
    metadata:
      labels: {team: data}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %s}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
        - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["4"]}
      expireAfter: 720h
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: 1m
    budgets: [{nodes: 10%%}]
`

const classYAML = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: %s
spec:
  role: KarpenterNodeRole-bench
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: bench}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: bench}}]
  tags: {team: data, revision: "%d"}
  blockDeviceMappings:
    - deviceName: /dev/xvda
      ebs: {volumeSize: 100Gi, volumeType: gp3, encrypted: true}
`
