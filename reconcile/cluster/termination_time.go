package cluster

import (
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// terminationTime is the annotation of a NodeClaim with the time at which Karpenter stops draining its node and
// terminates it (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle). Karpenter's documents call it internal: only
// this file reads it, and without it plumbline finds the cause of a termination by conditions and events.
const terminationTime = karpv1.NodeClaimTerminationTimestampAnnotationKey

// TerminatesAt returns the time at which Karpenter terminates the node of a NodeClaim, trimmed or not, whatever runs on
// it; zero if Karpenter has annotated none. Node repair annotates it at once. If a NodeClaim has a
// terminationGracePeriod, Karpenter annotates it when the deletion starts.
func TerminatesAt(claim *karpv1.NodeClaim) time.Time {
	at, err := time.Parse(time.RFC3339, claim.Annotations[terminationTime])
	if err != nil {
		return time.Time{} // it has none
	}
	return at
}

// TerminateNow returns the command that makes Karpenter terminate a node regardless of its pods and their budgets.
func TerminateNow(claim string) string {
	return fmt.Sprintf("kubectl annotate nodeclaim %s --overwrite %s=$(date -u +%%Y-%%m-%%dT%%H:%%M:%%SZ)", claim, terminationTime)
}
