package nodegroup

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"go.yaml.in/yaml/v3"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/images"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// families are the AMI families of Karpenter, by the name of their alias.
var families = map[string]string{
	"al2": awsv1.AMIFamilyAL2, "al2023": awsv1.AMIFamilyAL2023, "bottlerocket": awsv1.AMIFamilyBottlerocket,
	"windows2019": awsv1.AMIFamilyWindows2019, "windows2022": awsv1.AMIFamilyWindows2022, "windows2025": awsv1.AMIFamilyWindows2025,
}

// familyOf returns the family of an AMI type of EKS as in an alias; empty for CUSTOM, and for a type that is unknown here.
func familyOf(amiType string) string {
	for prefix, family := range map[string]string{
		"AL2_": "al2", "AL2023_": "al2023", "BOTTLEROCKET_": "bottlerocket",
		"WINDOWS_CORE_2019_": "windows2019", "WINDOWS_FULL_2019_": "windows2019",
		"WINDOWS_CORE_2022_": "windows2022", "WINDOWS_FULL_2022_": "windows2022",
		"WINDOWS_CORE_2025_": "windows2025", "WINDOWS_FULL_2025_": "windows2025",
	} {
		if strings.HasPrefix(amiType, prefix) {
			return family
		}
	}
	return ""
}

// equal adds an EC2NodeClass and a NodePool whose nodes are equal to those of a node group.
func (r *Result) equal(found Found, o Options, g cloud.NodeGroup, name string) error {
	e := &equality{Result: r, found: found, version: o.Version, group: g, class: "EC2NodeClass/" + name, pool: "NodePool/" + name, template: &cloud.LaunchTemplate{}}
	if g.Template != nil {
		e.template = g.Template
	}
	class, err := e.nodeClass(o)
	if err != nil {
		return fmt.Errorf("node group %s: %w", g.Name, err)
	}
	var annotations map[string]string
	if e.hasVariables() {
		annotations = map[string]string{"plumbline.dev/substitute": "disabled"}
	}
	above := fmt.Sprintf("The nodes of the EKS node group %s.", g.Name)
	first, err := document(above, object("karpenter.k8s.aws/v1", "EC2NodeClass", name, annotations, class))
	if err != nil {
		return err
	}
	second, err := document("", object("karpenter.sh/v1", "NodePool", name, nil, e.nodePool(name)))
	r.Files = append(r.Files, File{Name: NodesFolder + "/" + name + ".yaml", Text: first + "---\n" + second})
	e.differences()
	return err
}

// equality is the work on one node group.
type equality struct {
	*Result
	found Found
	// version of Karpenter.
	version string
	group   cloud.NodeGroup
	// template is that of the node group, or an empty one.
	template    *cloud.LaunchTemplate
	class, pool string
}

// hasVariables reports whether a text of the EC2NodeClass has what plumbline could take for a variable of its own.
func (e *equality) hasVariables() bool {
	has := func(text string) bool { return strings.Contains(text, "${") }
	for key, value := range e.template.InstanceTags {
		if has(key) || has(value) {
			return true
		}
	}
	return has(e.template.UserData)
}

// nodeClass returns the spec of the EC2NodeClass.
func (e *equality) nodeClass(o Options) (*yaml.Node, error) {
	family, ami, err := e.ami()
	if err != nil {
		return nil, err
	}
	subnets, err := e.subnets(e.found, e.class, slices.Compact(slices.Sorted(slices.Values(e.group.Subnets))))
	if err != nil {
		return nil, err
	}
	groups := slices.Clone(e.template.SecurityGroups)
	if len(groups) == 0 && e.found.SecurityGroup != "" {
		groups = append(groups, e.found.SecurityGroup)
	}
	if e.group.RemoteGroup != "" {
		groups = append(groups, e.group.RemoteGroup)
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("it has no security group, and the cluster has none of its own")
	}
	role := o.NodeRole
	if role == "" {
		role = e.group.RoleARN[strings.LastIndex(e.group.RoleARN, "/")+1:]
		e.note(Decide, e.class, "role",
			"the nodes have the role of the node group, %s: Karpenter's controller must be allowed to pass it (plumbline iam-policy --node-role %[1]s)", role)
	}
	of := append([]field{{key: "role", value: role}}, ami...)
	of = append(of,
		field{key: "subnetSelectorTerms", value: subnets},
		field{key: "securityGroupSelectorTerms", value: ids(groups)},
		e.reservation(),
		field{key: "associatePublicIPAddress", value: e.template.PublicAddress},
		field{key: "blockDeviceMappings", value: e.disks(family)},
		e.metadata(family),
	)
	if e.template.Monitoring {
		of = append(of, field{key: "detailedMonitoring", value: true})
	}
	of = append(of, field{key: "tags", value: e.tags()}, field{key: "userData", value: e.template.UserData})
	return fields(of...), nil
}

// ami returns the fields that select the AMI, and its family as in an alias; empty for an AMI that AWS does not publish.
func (e *equality) ami() (family string, of []field, err error) {
	if family = familyOf(e.group.AMIType); family != "" && e.template.ImageID == "" {
		of, err = e.published(family)
		return family, of, err
	}
	id := e.template.ImageID
	if id == "" {
		return "", nil, fmt.Errorf("its AMI type is %s, and its launch template names no AMI", e.group.AMIType)
	}
	release, known := images.ReleaseOf(e.found.Images[id].Name)
	name := "Custom"
	if known {
		family, name = release.Family, families[release.Family]
		e.note(Decide, e.class, "amiSelectorTerms", "the launch template pins AMI %s (%s); an alias would be %s", id, e.found.Images[id].Name, release.Alias())
	} else {
		e.note(Decide, e.class, "amiFamily", "AMI %s (%s) is not one that AWS publishes for EKS. If it is derived from one, set its family: with Custom, Karpenter adds nothing to the user data, which must then join the cluster with the taint karpenter.sh/unregistered:NoExecute, labels and taints", id, e.found.Images[id].Name)
	}
	if e.template.UserData != "" && known {
		e.note(Decide, e.class, "userData", "remove what joins the node to the cluster (bootstrap.sh, or the section cluster of a NodeConfig): Karpenter adds that")
	}
	return family, []field{{key: "amiFamily", value: name}, {key: "amiSelectorTerms", value: ids([]string{id})}}, nil
}

// published returns the fields for an AMI that AWS publishes.
func (e *equality) published(family string) ([]field, error) {
	if strings.HasSuffix(e.group.AMIType, "_FIPS") {
		arch, variant := "x86_64", "fips"
		if strings.Contains(e.group.AMIType, "ARM_64") {
			arch = "arm64"
		}
		if strings.Contains(e.group.AMIType, "NVIDIA") {
			variant = "nvidia-fips"
		}
		e.note(Differs, e.class, "amiSelectorTerms", "no alias has AMIs with FIPS: the SSM parameter of the newest one is not pinned, and each release of AWS replaces the nodes")
		parameter := fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s-%s/%s/latest/image_id", e.found.Kubernetes, variant, arch)
		return []field{
			{key: "amiFamily", value: families[family]},
			{key: "amiSelectorTerms", value: []*yaml.Node{fields(field{key: "ssmParameter", value: parameter})}},
		}, nil
	}
	alias := e.found.Pins[family]
	if strings.HasPrefix(family, "windows") {
		alias = family + "@" + images.Latest
	}
	if alias == "" {
		return nil, fmt.Errorf("its AMI type is %s, and AWS publishes no AMI of the family %s for Kubernetes %s", e.group.AMIType, family, e.found.Kubernetes)
	}
	if strings.HasPrefix(e.group.AMIType, "WINDOWS_FULL_") {
		e.note(Differs, e.class, "amiSelectorTerms", "the node group has Windows Server Full, and the alias %s has Core", alias)
	}
	return []field{amiTerms(alias)}, nil
}

// reservation returns the terms of the capacity reservation that the launch template targets.
func (e *equality) reservation() field {
	f := field{key: "capacityReservationSelectorTerms"}
	if e.template.ReservationID != "" {
		f.value = ids([]string{e.template.ReservationID})
	}
	return f
}

// rootDevices are the names of the volume with the containers, and defaultDisk is its size in a node group without one:
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html
var rootDevices = map[string]string{"al2": "/dev/xvda", "al2023": "/dev/xvda", "bottlerocket": "/dev/xvdb"}

const defaultDisk = 20

// disks returns the volumes of the launch template, or those that EKS makes of the disk size.
func (e *equality) disks(family string) (mappings []*yaml.Node) {
	for _, d := range e.template.Disks {
		size := d.GiB
		if size == 0 && d.Snapshot == "" {
			size = defaultDisk
			e.note(Decide, e.class, "blockDeviceMappings", "the launch template has no size for %s, so that the AMI decides: %d GiB here", d.Device, size)
		}
		mappings = append(mappings, mapping(d.Device, d, size))
	}
	if len(mappings) > 0 || e.group.DiskGiB == 0 {
		return mappings
	}
	encrypted, on := true, true
	d := cloud.Disk{Type: "gp3", Encrypted: &encrypted, Delete: &on}
	if family == "bottlerocket" {
		mappings = append(mappings, mapping("/dev/xvda", d, 4)) // the operating system
	}
	device := rootDevices[family]
	if device == "" {
		device = "/dev/sda1"
	}
	e.note(Info, e.class, "blockDeviceMappings", "the volumes are encrypted, as Karpenter does by default; those of the node group are only if that is the default of the account")
	return append(mappings, mapping(device, d, e.group.DiskGiB))
}

func mapping(device string, d cloud.Disk, gib int32) *yaml.Node {
	ebs := []field{}
	if gib > 0 {
		ebs = append(ebs, field{key: "volumeSize", value: fmt.Sprintf("%dGi", gib)})
	}
	ebs = append(ebs,
		field{key: "volumeType", value: d.Type}, field{key: "iops", value: number(d.IOPS)}, field{key: "throughput", value: number(d.Throughput)},
		field{key: "encrypted", value: d.Encrypted}, field{key: "kmsKeyID", value: d.KMSKey}, field{key: "snapshotID", value: d.Snapshot},
		field{key: "deleteOnTermination", value: d.Delete},
	)
	return fields(field{key: "deviceName", value: device}, field{key: "ebs", value: fields(ebs...)})
}

// metadata returns the settings of the instance metadata service. EKS's node groups have a hop limit of 2, and Karpenter's
// default is 1, with which pods do not reach it: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
func (e *equality) metadata(family string) field {
	m := cloud.Metadata{}
	if e.template.Metadata != nil {
		m = *e.template.Metadata
	}
	if m.HopLimit == 0 {
		m.HopLimit = 2
	}
	if m.Tokens == "" {
		m.Tokens = "required"
		if family == "al2" {
			m.Tokens = "optional"
		}
	}
	return field{
		key: "metadataOptions", comment: "As in the node group. Karpenter's default hop limit is 1: pods do not reach the service then.",
		value: fields(
			field{key: "httpEndpoint", value: m.Endpoint}, field{key: "httpProtocolIPv6", value: m.IPv6},
			field{key: "httpPutResponseHopLimit", value: m.HopLimit}, field{key: "httpTokens", value: m.Tokens},
		),
	}
}

// tags returns those of instances that Karpenter does not set itself.
func (e *equality) tags() map[string]string {
	tags := map[string]string{}
	for key, value := range e.template.InstanceTags {
		reserved := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
		if key == "" || slices.ContainsFunc([]string{"kubernetes.io/cluster/", "aws:", "karpenter.", "eks:"}, reserved) {
			e.note(Differs, e.class, "tags", "Karpenter sets tag %s itself, or does not allow it", key)
			continue
		}
		tags[key] = value
	}
	return tags
}

// nodePool returns the spec of the NodePool.
func (e *equality) nodePool(name string) *yaml.Node {
	system := "linux"
	if strings.HasPrefix(e.group.AMIType, "WINDOWS_") {
		system = "windows"
	}
	var zones []string
	for _, id := range e.group.Subnets {
		if zone := e.found.Subnets[id].Zone; zone != "" {
			zones = append(zones, zone)
		}
	}
	slices.Sort(zones)
	cpu, mib := e.found.most(e.group)
	if cpu == 0 {
		e.note(Decide, e.pool, "limits", "what its instance types have is unknown: set limits")
	}
	return fields(
		field{key: "template", value: fields(
			field{key: "metadata", value: fields(field{key: "labels", value: e.labels()})},
			field{key: "spec", value: fields(
				classRef(name),
				field{key: "taints", value: e.taints()},
				field{key: "requirements", value: requirements(
					requirement("node.kubernetes.io/instance-type", "In", slices.Compact(slices.Sorted(slices.Values(e.group.InstanceTypes)))...),
					requirement("topology.kubernetes.io/zone", "In", slices.Compact(zones)...),
					requirement("kubernetes.io/arch", "In", e.found.archOf(e.group)...),
					requirement("kubernetes.io/os", "In", system),
					requirement("karpenter.sh/capacity-type", "In", e.capacity()),
				)},
				field{key: "expireAfter", value: "Never", comment: "Nodes of a node group do not expire. Karpenter's default is 720h."},
			)},
		)},
		limits(cpu, mib, fmt.Sprintf("The maximum of the node group: %d nodes of its largest type.", e.group.Max)),
		disruption("10m"),
	)
}

func (e *equality) capacity() string {
	switch {
	case e.template.ReservationID != "" || e.group.CapacityType == "CAPACITY_BLOCK":
		return "reserved"
	case e.group.CapacityType == "SPOT":
		return "spot"
	}
	return "on-demand"
}

// labels returns those of the node group that a NodePool may set.
func (e *equality) labels() map[string]string {
	labels := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(e.group.Labels)) {
		if karpv1.WellKnownLabels.Has(key) || restricted(key, e.version) {
			e.note(Differs, e.pool, "labels", "a NodePool may not set label %s=%s: pods that select it are not scheduled", key, e.group.Labels[key])
			continue
		}
		labels[key] = e.group.Labels[key]
	}
	return labels
}

// restricted reports whether a version of Karpenter does not allow a label in the template of a NodePool: before 1.9 also
// those of Kubernetes' own domains (the rules of spec.template.metadata.labels in karpenter.sh_nodepools.yaml).
func restricted(key, version string) bool {
	if karpv1.IsRestrictedLabel(key) != nil {
		return true
	}
	domain, _, has := strings.Cut(key, "/")
	if !has || !karpenter.Newer("1.9.0", version) {
		return false
	}
	within := func(parents ...string) bool {
		return slices.ContainsFunc(parents, func(p string) bool { return domain == p || strings.HasSuffix(domain, "."+p) })
	}
	return within("kubernetes.io", "k8s.io") && !within("node.kubernetes.io", "node-restriction.kubernetes.io", "kops.k8s.io")
}

func (e *equality) taints() (taints []*yaml.Node) {
	for _, t := range e.group.Taints {
		taints = append(taints, fields(field{key: "key", value: t.Key}, field{key: "value", value: t.Value}, field{key: "effect", value: t.Effect}))
	}
	return taints
}

// differences notes what no field of a definition has.
func (e *equality) differences() {
	g, t := e.group, e.template
	e.note(Differs, e.pool, "labels", "the nodes do not have EKS's labels %s=%s and eks.amazonaws.com/capacityType: pods that select them stay on the node group", nodeGroupLabel, g.Name)
	if g.Min > 0 {
		e.note(Differs, e.pool, "minSize", "the node group keeps at least %d nodes; Karpenter launches nodes only for pods", g.Min)
	}
	if key := g.SSHKey + t.KeyName; key != "" {
		e.note(Differs, e.class, "keyName", "Karpenter cannot set the key pair %s: use Session Manager, or add the key in the user data", key)
	}
	if g.Repair {
		e.note(Differs, e.pool, "nodeRepairConfig", "EKS repairs nodes of the node group; with Karpenter that is the feature gate NodeRepair")
	}
	if e.capacity() == "reserved" {
		text := "the nodes use capacity reservations, which need the feature gate ReservedCapacity"
		if t.ReservationID == "" {
			text += ", and capacityReservationSelectorTerms that select yours"
		}
		e.note(Decide, e.class, "capacityReservationSelectorTerms", "%s", text)
	}
	for _, name := range t.Other {
		if name != "EbsOptimized" { // Karpenter's nodes are
			e.note(Differs, e.class, name, "the launch template has %s, which is not carried over", name)
		}
	}
	for _, name := range g.InstanceTypes {
		if _, known := e.found.Sizes[name]; !known {
			e.note(Decide, e.pool, "instanceTypes", "EC2 does not offer %s in %s", name, e.found.Region)
		}
	}
}
