package render

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
	// Adopt says that what somebody else has installed of Karpenter is taken over.
	// Default: it is refused.
	Adopt bool `json:"adopt,omitempty"`
	// Namespace of the controller. Default: kube-system.
	Namespace string `json:"namespace,omitempty"`
	// Values of the main chart.
	Values map[string]any `json:"values,omitempty"`
	// Nodes are the files and folders with definitions, from the folder of
	// plumbline.yaml. Default: that folder itself.
	Nodes []string `json:"nodes,omitempty"`
	// Substitute are the names that ${NAME} may take, beyond the built-in
	// CLUSTER_NAME and REGION.
	Substitute map[string]string `json:"substitute,omitempty"`
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
}

// Management says who installs Karpenter's charts.
type Management string

// The values of Management.
const (
	// Managed charts are installed by plumbline.
	Managed Management = "Managed"
	// External charts are someone else's; plumbline waits for their CRDs and
	// controller, and for those of Version where it is given.
	External Management = "External"
)
