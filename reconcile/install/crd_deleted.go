package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/render"
)

// tellLost says which nodes go with a CRD that was deleted: those of every
// NodePool, where it is theirs or that of NodeClaims. A CRD that is being deleted
// cannot be saved. It says so once.
func (s *Step) tellLost(ctx context.Context) error {
	pools, _ := render.KindOf(render.NodePool)
	for _, name := range []string{pools.CRD, cluster.NodeClaimCRD} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, crd); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read crd %s: %w", name, err)
		}
		if crd.DeletionTimestamp == nil || s.Memory.lost == crd.UID {
			continue
		}
		claims := &karpv1.NodeClaimList{}
		if err := s.View.Uncached.List(ctx, claims); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("find the nodes that go with crd %s: %w", name, err)
		}
		s.Memory.lost = crd.UID
		if len(claims.Items) > 0 {
			s.Warn(v1alpha1.ReasonNodesLost, fmt.Sprintf("crd %s was deleted, and with it go the nodes of %s: the CRD and Git's definitions are recreated once it is gone", name, byPool(claims.Items)))
		}
	}
	return nil
}

// byPool names NodeClaims with their nodes, pool by pool.
func byPool(claims []karpv1.NodeClaim) string {
	words := make([]string, 0, len(claims))
	for i := range claims {
		c := &claims[i]
		words = append(words, fmt.Sprintf("NodePool/%s: %s (%s)", c.Labels[karpv1.NodePoolLabelKey], c.Name, c.Status.NodeName))
	}
	slices.Sort(words)
	return strings.ReplaceAll(finding.Some(words), " ()", "")
}
