package v1alpha1

// BreakGlass is a command that would end a node past what keeps it, and what that risks. It is a
// person's to run.
type BreakGlass struct {
	// Node that does not end, by its name, or that of its NodeClaim.
	Node string `json:"node" redact:"-"`
	// Cause is a word for what keeps it.
	Cause BreakGlassCause `json:"cause"`
	// Command that would end it all the same.
	Command string `json:"command" redact:"hide"`
	// Risk is what is lost by it.
	Risk string `json:"risk" redact:"hide"`
}

// BreakGlassCause is what keeps a node.
type BreakGlassCause string

// What keeps a node.
const (
	// CauseBudget: a PodDisruptionBudget allows no eviction of one of its pods.
	CauseBudget BreakGlassCause = "PodDisruptionBudget"
	// CauseDoNotDisrupt: a pod is annotated so.
	CauseDoNotDisrupt BreakGlassCause = "DoNotDisrupt"
	// CauseFinalizer: a pod that was evicted has a finalizer of its own.
	CauseFinalizer BreakGlassCause = "PodFinalizer"
	// CauseObjectFinalizer: the NodeClaim or the Node has a finalizer of another controller than Karpenter.
	CauseObjectFinalizer BreakGlassCause = "Finalizer"
	// CausePod: a pod does not end.
	CausePod BreakGlassCause = "Pod"
	// CauseVolume: a volume is still attached.
	CauseVolume BreakGlassCause = "VolumeAttachment"
	// CauseProtected: EC2 protects the instance from termination.
	CauseProtected BreakGlassCause = "TerminationProtection"
	// CauseDenied: AWS denies Karpenter the termination.
	CauseDenied BreakGlassCause = "PermissionDenied"
)
