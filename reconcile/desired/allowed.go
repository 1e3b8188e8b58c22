package desired

import (
	"context"
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/contradiction"
	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// AllowanceOf is what a NodeSync lets Git say of the charts.
func AllowanceOf(sync *v1alpha1.NodeSync) allowance.Allowance {
	if sync.Spec.Charts == nil || sync.Spec.Charts.Allow == nil {
		return allowance.Allowance{}
	}
	allow := sync.Spec.Charts.Allow
	return allowance.Allowance{
		Repositories: allow.Repositories, Versions: allow.Versions, Digests: allow.Digests,
		Values: allow.Values, ControllerRoles: allow.ControllerRoles, PodSecurity: allowance.Level(allow.PodSecurity),
	}
}

// CheckRequest refuses what plumbline.yaml says of the charts and the NodeSync does not
// allow. No repository has been asked by then. It returns the values that no chart known
// here has: whether this one has them is to be seen. bundle is the cluster's authorities, PEM in
// base64; empty where they are not known.
func CheckRequest(sync *v1alpha1.NodeSync, wanted *render.Karpenter, values charts.Values, bundle string) (unknown []allowance.Refusal, err error) {
	allow := AllowanceOf(sync)
	allow.CABundle = bundle
	refusals := slices.Concat(
		allow.Check(requestOf(wanted)),
		allow.CheckValues(values.Merged),
	)
	for _, secret := range values.FromSecrets {
		refusals = append(refusals, allow.CheckSecret(secret)...)
	}
	isUnknown := func(r allowance.Refusal) bool { return r.Unknown }
	if slices.ContainsFunc(refusals, func(r allowance.Refusal) bool { return !isUnknown(r) }) {
		return nil, allowance.Refuse(refusals)
	}
	return refusals, nil
}

// requestOf is what plumbline.yaml asks for.
func requestOf(wanted *render.Karpenter) allowance.Request {
	return allowance.Request{
		Repository: wanted.Repository, Version: wanted.Version, ControllerRole: wanted.Cluster.ControllerRole,
		Secrets: slices.ContainsFunc(wanted.ValuesFrom, func(from render.ValuesFrom) bool { return from.Kind == render.FromSecret }),
	}
}

// checkFound refuses charts whose digests are not allowed, and values that no chart
// known here has, but this one. Those that it has not either are misspelt: the gates say
// what was meant.
func (s *Step) checkFound(found *charts.Charts, unknown []allowance.Refusal) error {
	refusals := AllowanceOf(s.Sync).CheckDigests(requestOf(s.Karpenter), found.CRDDigest, found.Digest)
	if len(unknown) > 0 {
		defaults, err := found.Values()
		if err != nil {
			return err
		}
		misspelt := karpenter.Unknown(s.Values.Merged, defaults)
		refusals = append(refusals, slices.DeleteFunc(unknown, func(r allowance.Refusal) bool {
			return slices.ContainsFunc(misspelt, func(u karpenter.UnknownValue) bool { return r.Entry == u.Path })
		})...)
	}
	return allowance.Refuse(refusals)
}

// compared are the CRDs of a chart in Git that were compared last, by its digest.
type compared struct {
	digest  string
	refused []allowance.Refusal
}

// checkCRDs refuses CRDs of a chart in Git before their schemas are compiled. A chart that a
// digest in the NodeSync vouches for is not rendered for that.
func (s *Step) checkCRDs(ctx context.Context, found *charts.Charts) error {
	allow := AllowanceOf(s.Sync)
	if !allowance.InGit(s.Karpenter.Repository) || len(allow.Digests) > 0 {
		return nil
	}
	if last := s.Memory.compared; last.digest != "" && last.digest == found.CRDDigest {
		return allowance.Refuse(last.refused)
	}
	crds, err := found.CRDs(ctx)
	if err != nil {
		return err
	}
	refused, err := allow.CheckCRDs(found.Version, found.CRDDigest, crds)
	if err != nil {
		return err
	}
	s.Memory.compared = compared{digest: found.CRDDigest, refused: refused}
	return allowance.Refuse(refused)
}

// Permit is asked about what the charts render to. That may be an earlier revision, whose
// version or digest is not allowed any more. CRDs stay where the controller goes back, and run
// nothing: those of any version are repaired.
func (s *Step) Permit(r release.Rendered) error {
	allow, ofCRDs := AllowanceOf(s.Sync), r.Chart == charts.CRDChart
	var refusals []allowance.Refusal
	if !ofCRDs {
		refusals = allow.CheckInstalled(r.Version, r.Digest)
	}
	rendered := allowance.Rendered{Namespace: r.Namespace, Version: r.Version, Digest: r.Digest, CRDs: ofCRDs, Objects: r.Objects}
	if k := s.Karpenter; k != nil {
		rendered.InGit = allowance.InGit(k.Repository)
		rendered.Cluster = contradiction.Cluster{Name: k.Cluster.Name, Region: k.Cluster.Region, InterruptionQueue: k.Cluster.InterruptionQueue}
	}
	return allowance.Refuse(append(refusals, allow.CheckObjects(rendered)...))
}

// warnOfEverything says, once for each generation of the NodeSync, that its repository
// may take every right that plumbline has.
func (s *Step) warnOfEverything() {
	if s.Karpenter.Management != render.Managed || !AllowanceOf(s.Sync).Everything() || s.Observed == s.Sync.Generation {
		return
	}
	s.Warn(v1alpha1.ReasonAllowsEverything, fmt.Sprintf(
		"spec.charts.allow.values of NodeSync %s/%s has %q: everyone who can push commits may choose the image, the identity, the volumes and the Secrets of Karpenter's controller; name the values that are needed",
		s.Sync.Namespace, s.Sync.Name, allowance.Everything))
}
