package render

import (
	"fmt"
	"strings"
)

// Karpenter is plumbline.yaml: config.plumbline.dev/v1alpha1, kind Karpenter.
type Karpenter struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Cluster    Cluster `json:"cluster"`
	// Management says who installs the charts. Default: Managed.
	Management Management `json:"management,omitempty"`
	// Version of both charts, a full semantic version without a range. With management
	// External the one that is waited for; default: any that is there.
	Version string `json:"version,omitempty"`
	// Repository holds both charts: oci://…, the https:// URL of a Helm repository,
	// or a path from the folder of plumbline.yaml that begins with ./ or ../;
	// default oci://public.ecr.aws/karpenter.
	Repository string `json:"repository,omitempty"`
	// Digests pin the charts. Default: any content will do.
	Digests Digests `json:"digests,omitzero"`
	// Adopt says that what another tool has installed of Karpenter is adopted.
	// Default: it is refused.
	Adopt bool `json:"adopt,omitempty"`
	// AcceptUntested are versions that are newer than what plumbline knows, and are
	// installed, or installed on, all the same: "karpenter 1.15.0", "kubernetes 1.37".
	// Default: such a change of the charts is held.
	AcceptUntested []string `json:"acceptUntested,omitempty"`
	// Namespace of the controller. Default: kube-system.
	Namespace string `json:"namespace,omitempty"`
	// ValuesFrom are ConfigMaps and Secrets of the NodeSync's namespace that hold
	// values of the main chart. Each is merged over the ones before it.
	ValuesFrom []ValuesFrom `json:"valuesFrom,omitempty"`
	// ValuesFiles hold values of the main chart, as paths from the folder of
	// plumbline.yaml. They are merged over ValuesFrom, in their order.
	ValuesFiles []string `json:"valuesFiles,omitempty"`
	// Values of the main chart, merged over all others. Null takes a default away.
	Values map[string]any `json:"values,omitempty"`
	// IgnoreDifferences are fields of what the charts make that are another tool's.
	IgnoreDifferences []IgnoreDifference `json:"ignoreDifferences,omitempty"`
	// Nodes are the files and folders with definitions, from the folder of
	// plumbline.yaml. Default: that folder itself.
	Nodes []string `json:"nodes,omitempty"`
	// IgnoreKinds are kinds of other tools, as Kind or Kind.group, whose objects may lie among
	// the definitions and are passed over. Default: any kind that is not ours is refused.
	IgnoreKinds []string `json:"ignoreKinds,omitempty"`
	// Approve are digests of what the guard holds that the commit approves: status.held.digest
	// of a NodeSync whose spec.guard.approveFrom is Git. A digest of what is not held does nothing.
	Approve []string `json:"approve,omitempty"`
	// Substitute are the names that ${NAME} may take, beyond the built-in
	// CLUSTER_NAME and REGION.
	Substitute map[string]string `json:"substitute,omitempty"`
}

// IgnoreDifference names fields of objects, in the shape that Argo CD has.
type IgnoreDifference struct {
	Kind string `json:"kind"`
	// Name of the object. Default: each of the kind.
	Name string `json:"name,omitempty"`
	// JSONPointers lead to fields, by RFC 6901.
	JSONPointers []string `json:"jsonPointers,omitempty"`
	// ManagedFieldsManagers are field managers, for all that they own.
	ManagedFieldsManagers []string `json:"managedFieldsManagers,omitempty"`
}

// Digests are those that the two charts have to have, as sha256:<hex>: of the
// manifests in an OCI registry, of the archives elsewhere.
type Digests struct {
	CRD        string `json:"karpenter-crd,omitempty"`
	Controller string `json:"karpenter,omitempty"`
}

// Cluster is the cluster as AWS knows it.
type Cluster struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	// InterruptionQueue is the name of the SQS queue that EC2's interruptions are
	// sent to. Default: the chart's values say.
	InterruptionQueue string `json:"interruptionQueue,omitempty"`
	// ControllerRole is the ARN of the IAM role that Karpenter's service account takes
	// by IRSA. Default: the chart's values say; EKS Pod Identity needs none.
	ControllerRole string `json:"controllerRole,omitempty"`
}

// ValuesFrom names an object of the cluster that holds values.
type ValuesFrom struct {
	// Kind is ConfigMap or Secret.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// ValuesKey is the key that holds the values. Default: values.yaml.
	ValuesKey string `json:"valuesKey,omitempty"`
	// TargetPath is the one value that the key holds, in the notation of Helm's --set.
	// Default: the key holds values in YAML.
	TargetPath string `json:"targetPath,omitempty"`
	// Optional says that it may be missing.
	Optional bool `json:"optional,omitempty"`
}

// String names it as kubectl does, with the key.
func (v ValuesFrom) String() string {
	return fmt.Sprintf("%s %s, key %s", strings.ToLower(v.Kind), v.Name, v.ValuesKey)
}

// The kinds of ValuesFrom.
const (
	FromConfigMap = "ConfigMap"
	FromSecret    = "Secret"
)

// Management says who installs Karpenter's charts.
type Management string

// The values of Management.
const (
	// Managed charts are installed by plumbline.
	Managed Management = "Managed"
	// External charts are another client's; plumbline waits for their CRDs and
	// controller, and for those of Version where it is given.
	External Management = "External"
)
