package bench

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// layout is how a fleet's files are arranged in the repository.
type layout int

const (
	// plain files in one folder.
	plain layout = iota
	// listed by a kustomization that does nothing else.
	listed
	// transformed by an overlay: a label on each object and a patch of one.
	transformed
)

// String returns its name in the files of profiles.
func (l layout) String() string { return [...]string{"plain", "listed", "transformed"}[l] }

// fleet is the content of Git. Commits change its numbers.
type fleet struct {
	// folder is its path in the repository; prefix is the prefix of all its names.
	folder, prefix string
	layout         layout
	limits         []int // of each pair
}

func newFleet(folder, prefix string, objects int) *fleet {
	f := &fleet{folder: folder, prefix: prefix}
	f.grow(objects)
	return f
}

// grow adds pairs until it has this many objects.
func (f *fleet) grow(objects int) {
	for len(f.limits) < objects/2 {
		f.limits = append(f.limits, 100)
	}
}

// changeOne raises the limit of one NodePool and returns it.
func (f *fleet) changeOne(i int) definition {
	i %= len(f.limits)
	f.limits[i]++
	return f.pool(i)
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
	// file is its path in the repository, content the object in YAML.
	file, content string
}

// json returns the definition as the body of a request.
func (d definition) json() ([]byte, error) {
	body, err := yaml.YAMLToJSON([]byte(d.content))
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", d.kind.Resource, d.name, err)
	}
	return body, nil
}

// all returns the definitions, classes first.
func (f *fleet) all() []definition { return append(f.classes(), f.pools()...) }

func (f *fleet) pools() []definition {
	all := make([]definition, len(f.limits))
	for i := range all {
		all[i] = f.pool(i)
	}
	return all
}

func (f *fleet) classes() []definition {
	all := make([]definition, len(f.limits))
	for i := range all {
		all[i] = f.class(i)
	}
	return all
}

func (f *fleet) name(i int) string { return fmt.Sprintf("%spair-%04d", f.prefix, i) }

func (f *fleet) pool(i int) definition {
	name := f.name(i)
	return definition{
		kind: nodePools, name: name, file: f.file(nodePools, name),
		content: fmt.Sprintf(poolYAML, name, i%100+1, f.limits[i], name),
	}
}

// class changes only with the thousands of the limit: raising a limit by one changes only the pool.
func (f *fleet) class(i int) definition {
	name := f.name(i)
	return definition{
		kind: nodeClasses, name: name, file: f.file(nodeClasses, name),
		content: fmt.Sprintf(classYAML, name, f.limits[i]/1000),
	}
}

func (f *fleet) file(kind schema.GroupVersionResource, name string) string {
	return path.Join(f.folder, f.definitions(), kind.Resource+"-"+name+".yaml")
}

// definitions returns the folder of the definitions below the fleet's.
func (f *fleet) definitions() string {
	if f.layout == transformed {
		return "base"
	}
	return "nodes"
}

// settings returns the files of the fleet that are not definitions, by their names.
func (f *fleet) settings() map[string]string {
	files := map[string]string{
		path.Join(f.folder, "plumbline.yaml"): fmt.Sprintf(karpenterYAML, sandbox.DefaultCluster, sandbox.DefaultRegion),
	}
	if f.layout == plain {
		return files
	}
	var list strings.Builder
	for _, d := range f.all() {
		fmt.Fprintf(&list, "  - %s\n", path.Base(d.file))
	}
	files[path.Join(f.folder, f.definitions(), "kustomization.yaml")] = "resources:\n" + list.String()
	if f.layout == transformed {
		files[path.Join(f.folder, "nodes", "kustomization.yaml")] = fmt.Sprintf(overlayYAML, f.name(0))
	}
	return files
}

const karpenterYAML = `apiVersion: config.plumbline.dev/v1alpha1
kind: Karpenter
cluster: {name: %s, region: %s}
management: External
nodes: [./nodes]
`

const overlayYAML = `resources: [../base]
labels: [{pairs: {stage: production}}]
patches:
  - target: {kind: NodePool, name: %s}
    patch: |
      - {op: replace, path: /spec/weight, value: 42}
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
