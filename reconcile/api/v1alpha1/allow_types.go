package v1alpha1

// ChartAllow is what of Karpenter's charts may come from Git. What is not in it is
// refused, with the line that would allow it. It stands in the cluster, so that no
// commit can widen it.
type ChartAllow struct {
	// Repositories that charts may come from, as plumbline.yaml has them. A path in the
	// repository, such as ./charts, hands the charts themselves to everyone who pushes.
	// +kubebuilder:default={"oci://public.ecr.aws/karpenter"}
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	// +listType=set
	// +optional
	Repositories []string `json:"repositories,omitempty"`

	// Versions is a range of semantic versions, such as ">=1.14 <2". Default: any.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Versions string `json:"versions,omitempty"`

	// Digests that charts may have, those of both. Default: any.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^sha256:[0-9a-f]{64}$`
	// +listType=set
	// +optional
	Digests []string `json:"digests,omitempty"`

	// Values of the main chart that a commit may set beyond those that change
	// neither identity, image, security context, volumes, host access, Secrets nor
	// rights: by path, each with all below it, such as podLabels, controller.envFrom
	// or controller.env[AWS_ENDPOINT_URL]. "*" allows all of them, and is warned of.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^(\*|[A-Za-z][^*\s]*)$`
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	// +optional
	Values []string `json:"values,omitempty"`

	// ControllerRoles are ARNs of the IAM roles that cluster.controllerRole in
	// plumbline.yaml may name. Default: none.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^arn:[a-z-]+:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$`
	// +kubebuilder:validation:items:MaxLength=2048
	// +listType=set
	// +optional
	ControllerRoles []string `json:"controllerRoles,omitempty"`

	// PodSecurity is the level of the Pod Security Standards that the controller's
	// pods have to meet. Karpenter's own chart meets Restricted.
	// +kubebuilder:default=Restricted
	// +optional
	PodSecurity PodSecurityLevel `json:"podSecurity,omitempty"`
}

// PodSecurityLevel is a level of the Pod Security Standards.
//
// +kubebuilder:validation:Enum=Restricted;Baseline;Privileged
type PodSecurityLevel string
