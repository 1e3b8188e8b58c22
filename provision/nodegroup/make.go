package nodegroup

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// Found is what exists in AWS around an EKS cluster.
type Found struct {
	Cluster, Region string
	// Kubernetes is the cluster's version, such as 1.36.
	Kubernetes string
	// SecurityGroup is the one that EKS has created for the cluster.
	SecurityGroup string
	// Subnets are those of the node groups and, if there is no node group, of the cluster, by ID.
	Subnets map[string]cloud.Subnet
	Groups  []cloud.NodeGroup
	// Sizes are those of the instance types of the node groups, by name.
	Sizes map[string]cloud.Size
	// Pins are the aliases of the newest release for the Kubernetes version, by family: al2023 → al2023@v20251103.
	Pins map[string]string
	// Images are the AMIs that launch templates name, by ID.
	Images map[string]resolve.Image
	// InterruptionQueue is the name of the SQS queue that has the cluster's name; empty if there is none.
	InterruptionQueue string
}

// Options are what the user decides.
type Options struct {
	// Version of Karpenter. Default: the newest that plumbline knows.
	Version string
	// NodeRole is the name of the IAM role of nodes. Default: KarpenterNodeRole-<cluster>; with From that of the node group.
	NodeRole string
	// InterruptionQueue is the name of the SQS queue. Default: that of Found.
	InterruptionQueue string
	// ControllerRole is the ARN of the role of Karpenter's controller with IRSA; empty with EKS Pod Identity.
	ControllerRole string
	// Keep is the node group on which Karpenter's controller runs. Default: the only one of the cluster.
	Keep string
	// From are node groups for which to make equal nodes. Default: one NodePool for all pods.
	From []string
}

// File is a file to write. Its name is a path from the folder of plumbline.yaml.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Note is what a person has to know about a definition.
type Note struct {
	Kind NoteKind `json:"kind"`
	// Object is what it is about: NodePool/batch, or plumbline.yaml. Field is the field of the node group, or of the
	// definition; it may be empty.
	Object string `json:"object"`
	Field  string `json:"field,omitempty"`
	Text   string `json:"text"`
}

// NoteKind is the kind of a Note.
type NoteKind string

// The kinds of a Note.
const (
	// Differs is what cannot be equal to the node group.
	Differs NoteKind = "differs"
	// Decide is what only a person can decide.
	Decide NoteKind = "decide"
	// Info is something else to know.
	Info NoteKind = "info"
)

// Result are the files, and what to know about them.
type Result struct {
	Files []File `json:"files"`
	Notes []Note `json:"notes"`
}

// note adds a Note.
func (r *Result) note(kind NoteKind, object, field, text string, args ...any) {
	r.Notes = append(r.Notes, Note{Kind: kind, Object: object, Field: field, Text: fmt.Sprintf(text, args...)})
}

// ConfigFile is the name of the file that describes the cluster.
const ConfigFile = "plumbline.yaml"

// NodesFolder is the folder of the definitions, from that of plumbline.yaml.
const NodesFolder = "nodes"

// Make makes the files. It returns an error if a node group does not exist, or if what every definition needs is unknown.
func Make(found Found, options Options) (Result, error) {
	options.Version = cmp.Or(options.Version, karpenter.Newest())
	r := Result{Files: []File{}, Notes: []Note{}}
	if err := r.config(found, options); err != nil {
		return r, err
	}
	if len(options.From) == 0 {
		return r, r.general(found, options)
	}
	taken := map[string]bool{}
	for _, name := range options.From {
		at := slices.IndexFunc(found.Groups, func(g cloud.NodeGroup) bool { return g.Name == name })
		if at < 0 {
			return r, fmt.Errorf("EKS cluster %s has no managed node group %s: it has %s", found.Cluster, name, cmp.Or(strings.Join(names(found.Groups), ", "), "none"))
		}
		object := objectName(name)
		if taken[object] {
			return r, fmt.Errorf("node group %s: another one would have the same name in Kubernetes, %s: write the definitions of one of them with another run, and rename them", name, object)
		}
		taken[object] = true
		if err := r.equal(found, options, found.Groups[at], object); err != nil {
			return r, err
		}
	}
	return r, nil
}

func names(groups []cloud.NodeGroup) (all []string) {
	for i := range groups {
		all = append(all, groups[i].Name)
	}
	return all
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// objectName returns the name of a node group as the name of an object: EKS allows upper case and underscores.
func objectName(group string) string {
	return cmp.Or(strings.Trim(notInNames.ReplaceAllString(strings.ToLower(group), "-"), "-"), "nodes")
}

// config adds plumbline.yaml.
func (r *Result) config(found Found, o Options) error {
	queue := cmp.Or(o.InterruptionQueue, found.InterruptionQueue)
	if queue == "" {
		r.note(Decide, ConfigFile, "cluster.interruptionQueue",
			"no SQS queue is named %s: without a queue, Karpenter does not see spot interruptions in advance", found.Cluster)
	}
	if minor, err := karpenter.KubernetesMinor(found.Kubernetes); err == nil {
		if gap, err := karpenter.KubernetesGap(o.Version, minor); err == nil && gap != "" {
			r.note(Decide, ConfigFile, "version", "%s", gap)
		}
	}
	values, err := r.values(found, o)
	if err != nil {
		return err
	}
	root := fields(
		field{key: "apiVersion", value: "config.plumbline.dev/v1alpha1"},
		field{key: "kind", value: "Karpenter"},
		field{key: "cluster", value: fields(
			field{key: "name", value: found.Cluster}, field{key: "region", value: found.Region},
			field{key: "interruptionQueue", value: queue}, field{key: "controllerRole", value: o.ControllerRole},
		)},
		field{key: "version", value: o.Version, comment: "Karpenter's version. To raise it: plumbline upgrade."},
		field{key: "values", value: values},
		field{key: "nodes", value: []string{"./" + NodesFolder}},
	)
	text, err := document("Which cluster this is, and which Karpenter it runs.", root)
	r.Files = append(r.Files, File{Name: ConfigFile, Text: text})
	return err
}

// nodeGroupLabel is the label that EKS sets on the nodes of a managed node group.
const nodeGroupLabel = "eks.amazonaws.com/nodegroup"

// values returns the values of Karpenter's chart: where the controller runs, how often, and what it requests.
func (r *Result) values(found Found, o Options) (any, error) {
	var all []field
	keep := o.Keep
	windows := func(g cloud.NodeGroup) bool { return strings.HasPrefix(g.AMIType, "WINDOWS_") }
	linux := slices.DeleteFunc(slices.Clone(found.Groups), windows)
	at := slices.IndexFunc(linux, func(g cloud.NodeGroup) bool { return g.Name == keep })
	switch {
	case keep != "" && at < 0:
		return nil, fmt.Errorf("EKS cluster %s has no managed node group %s with Linux: it has %s", found.Cluster, keep, cmp.Or(strings.Join(names(linux), ", "), "none"))
	case keep == "" && len(linux) == 1:
		keep, at = linux[0].Name, 0
	case keep == "":
		r.note(Info, ConfigFile, "values", "Karpenter's controller runs on any node that Karpenter does not manage, as its chart decides")
	}
	nodes := 0
	for i := range linux {
		if keep == "" || linux[i].Name == keep {
			nodes += linux[i].Desired
		}
	}
	if len(linux) > 0 && nodes < 2 {
		all = append(all, field{key: "replicas", value: 1, comment: "Only one node is there for it: two replicas need two nodes."})
	}
	if keep != "" {
		all = append(all, field{
			key: "nodeSelector", value: map[string]string{nodeGroupLabel: keep},
			comment: "The nodes that stay: Karpenter cannot run on nodes that it manages.",
		})
		if len(linux[at].Taints) > 0 {
			r.note(Decide, ConfigFile, "values.tolerations", "node group %s has taints: Karpenter's controller needs tolerations for them", keep)
		}
	}
	amounts := map[string]string{"cpu": "1", "memory": "1Gi"}
	all = append(all, field{key: "controller", value: fields(field{key: "resources", value: fields(
		field{key: "requests", value: amounts}, field{key: "limits", value: map[string]string{"memory": "1Gi"}},
	)})})
	return fields(all...), nil
}

// general adds an EC2NodeClass and a NodePool for all pods.
func (r *Result) general(found Found, o Options) error {
	family := "al2023"
	other := func(g cloud.NodeGroup) bool { return familyOf(g.AMIType) != "bottlerocket" }
	if len(found.Groups) > 0 && !slices.ContainsFunc(found.Groups, other) {
		family = "bottlerocket"
	}
	alias := found.Pins[family]
	if alias == "" {
		return fmt.Errorf("AWS publishes no AMI of the family %s for Kubernetes %s", family, found.Kubernetes)
	}
	terms, err := r.subnets(found, "EC2NodeClass/default", SubnetsOf(found.Groups, found.Subnets))
	if err != nil {
		return err
	}
	if found.SecurityGroup == "" {
		return fmt.Errorf("EKS cluster %s has no security group of its own", found.Cluster)
	}
	class, err := document("The image, role and network of the nodes.", object("karpenter.k8s.aws/v1", "EC2NodeClass", "default", nil, fields(
		field{key: "role", value: cmp.Or(o.NodeRole, "KarpenterNodeRole-"+found.Cluster)},
		amiTerms(alias),
		field{key: "subnetSelectorTerms", value: terms},
		field{key: "securityGroupSelectorTerms", value: ids([]string{found.SecurityGroup}), comment: "The cluster's security group."},
	)))
	if err != nil {
		return err
	}
	archs, spot, cpu, mib := found.today()
	capacity := []string{"on-demand"}
	if spot {
		capacity = []string{"spot", "on-demand"}
	}
	if cpu == 0 {
		cpu, mib = defaultCPU, 0
		r.note(Decide, "NodePool/general", "spec.limits", "no node group to derive limits from: %d processors", cpu)
	}
	pool, err := document("Nodes for all pods without special requirements.", object("karpenter.sh/v1", "NodePool", "general", nil, fields(
		field{key: "template", value: fields(field{key: "spec", value: fields(
			classRef("default"),
			field{key: "requirements", value: requirements(
				requirement("kubernetes.io/arch", "In", archs...), requirement("kubernetes.io/os", "In", "linux"),
				requirement("karpenter.sh/capacity-type", "In", capacity...),
				requirement("karpenter.k8s.aws/instance-category", "In", "c", "m", "r"),
				requirement("karpenter.k8s.aws/instance-generation", "Gt", "4"),
			)},
		)})},
		limits(cpu, mib, "As much as the node groups may have at most today."),
		disruption("5m"),
	)))
	r.Files = append(r.Files, File{Name: NodesFolder + "/default.yaml", Text: class}, File{Name: NodesFolder + "/general.yaml", Text: pool})
	return err
}

// defaultCPU are the limits of a NodePool if there is no node group.
const defaultCPU = 100

// today returns the architectures of the node groups, whether one has spot capacity, and how much they may have at most.
func (f Found) today() (archs []string, spot bool, cpu, mib int64) {
	for i := range f.Groups {
		g := f.Groups[i]
		if strings.HasPrefix(g.AMIType, "WINDOWS_") {
			continue
		}
		archs = append(archs, f.archOf(g)...)
		spot = spot || g.CapacityType == "SPOT"
		c, m := f.most(g)
		cpu, mib = cpu+c, mib+m
	}
	slices.Sort(archs)
	if archs = slices.Compact(archs); len(archs) == 0 {
		archs = []string{"amd64"}
	}
	return archs, spot, cpu, mib
}

// most returns what a node group has if it has its maximum of nodes, all of its largest type.
func (f Found) most(g cloud.NodeGroup) (cpu, mib int64) {
	for _, name := range g.InstanceTypes {
		size := f.Sizes[name]
		cpu, mib = max(cpu, size.CPU), max(mib, size.MiB)
	}
	return cpu * int64(g.Max), mib * int64(g.Max)
}

// archOf returns the architectures of a node group's nodes.
func (f Found) archOf(g cloud.NodeGroup) []string {
	switch {
	case strings.Contains(g.AMIType, "ARM_64"):
		return []string{"arm64"}
	case g.AMIType != "CUSTOM" && g.AMIType != "":
		return []string{"amd64"}
	}
	var archs []string
	for _, name := range g.InstanceTypes {
		archs = append(archs, f.Sizes[name].Archs...)
	}
	slices.Sort(archs)
	return slices.Compact(archs)
}

// mostTerms is how many terms an EC2NodeClass may have (EC2NodeClassSpec in karpenter-provider-aws, 1.15.0).
const mostTerms = 30
