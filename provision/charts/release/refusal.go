package release

import (
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
)

// TerminatingError says that objects of the chart are being deleted: a write to them
// would be lost.
type TerminatingError struct {
	Objects []string
}

// Error names them.
func (e *TerminatingError) Error() string {
	return fmt.Sprintf("%s: being deleted, recreated once gone", strings.Join(e.Objects, ", "))
}

// RejectedError says that the API server would not accept what the chart renders to
// with these values. Nothing was written.
type RejectedError struct {
	Rejections []string
}

// Error has the API server's words.
func (e *RejectedError) Error() string {
	return "the API server rejects what the chart renders to, and nothing was written; check values in plumbline.yaml: " +
		strings.Join(e.Rejections, "; ")
}

// ForbiddenError says that plumbline lacks permissions that the chart needs. Nothing
// was written.
type ForbiddenError struct {
	Refusals []string
}

// Error has the API server's words, which name the missing rule.
func (e *ForbiddenError) Error() string {
	return "plumbline may not install what the chart renders to, and nothing was written; add the missing rules to ClusterRole plumbline-charts: " +
		strings.Join(e.Refusals, "; ")
}

// DroppedCRDsError says that a chart has fewer CRDs, or objects of Karpenter's
// kinds, than the release that it would replace.
type DroppedCRDsError struct {
	Names []string
}

// Error names them.
func (e *DroppedCRDsError) Error() string {
	return fmt.Sprintf("the chart lacks %s, which the release has: Helm would delete them, and with them every node that depends on them",
		strings.Join(e.Names, ", "))
}

// UnprotectedCRDsError says that a chart does not let its CRDs be kept when its
// release goes.
type UnprotectedCRDsError struct {
	Names []string
}

// Error names them.
func (e *UnprotectedCRDsError) Error() string {
	return fmt.Sprintf("the chart renders %s without %s: %s, because it does not honour additionalAnnotations: use a newer version",
		strings.Join(e.Names, ", "), kube.ResourcePolicyAnno, kube.KeepPolicy)
}
