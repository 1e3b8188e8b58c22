package evaluate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plumbline-dev/plumbline/contradiction"
	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// ResolveSchema finds the charts, and the schema of the definitions: that of the charts' CRDs, or of what is in force
// if it is known that the charts will not be changed. refused returns why that is known, or nil; it is called once the
// charts are available.
func (s *DesiredStep) ResolveSchema(ctx context.Context, refused func() (why, err error)) (notUpgraded, err error) {
	if err := s.Resolve(ctx); err != nil || s.Charts == nil {
		return nil, err
	}
	if notUpgraded, err = refused(); err != nil {
		return nil, err
	}
	if s.NotUpgraded = notUpgraded; notUpgraded != nil {
		return notUpgraded, s.UseSchemaInForce(ctx)
	}
	return nil, s.UseSchema(ctx)
}

// Resolve finds the charts of the version in Git. If Git has no version, or the charts are unavailable while a release
// is in force, it uses the schema of the CRDs in the cluster, and finds no charts.
func (s *DesiredStep) Resolve(ctx context.Context) error {
	if s.Karpenter.Version == "" {
		return s.resolveLive(ctx)
	}
	if err := s.MergeValues(ctx); err != nil {
		return s.withoutCharts(ctx, err)
	}
	s.warnOfAllowAll()
	unknown, err := CheckRequest(s.Sync, s.Karpenter, s.Values, s.CABundle)
	if err != nil {
		return s.withoutCharts(ctx, err)
	}
	resolved, err := s.Pull(ctx)
	if err == nil {
		err = s.checkFound(resolved, unknown)
	}
	if err == nil {
		err = s.checkCRDs(ctx, resolved)
	}
	if err == nil {
		err = s.checkServed(ctx, resolved)
	}
	if err != nil {
		return s.withoutCharts(ctx, err)
	}
	s.Charts = resolved
	return nil
}

// UseSchema uses the schema of the charts' CRDs, and of those that EKS keeps.
func (s *DesiredStep) UseSchema(ctx context.Context) error {
	var err error
	served := s.Memory.servedByEKS
	s.SchemaIdentity = s.Charts.CRDDigest + served.generations
	s.Schema, err = s.Schemas.Get(s.SchemaIdentity, func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
		crds, err := s.Charts.CRDs(ctx)
		return karpenter.WithServed(crds, served.crds), err
	})
	if err != nil || !upgrade.CRDsAhead(s.Sync.Status.Karpenter, s.Karpenter.Version) {
		return err
	}
	established, err := s.View.Established(ctx)
	if err != nil || !established.Ready {
		return err // a release that is gone is reinstalled
	}
	// The API server uses its own CRDs; an older controller supports fewer fields.
	s.Older = s.Schema
	return s.resolveLive(ctx)
}

// Pull gets the charts of the version in Git from the store. A failure is not retried for a while: a registry can take
// as long as a reconcile may. If an input of the attempt has changed, or a person requests a reconcile, it retries at
// once.
func (s *DesiredStep) Pull(ctx context.Context) (*charts.Charts, error) {
	repository, inside, err := s.Karpenter.ChartRepository(s.Sync.Spec.Path)
	if err != nil {
		return nil, err
	}
	try := pull{
		ref: charts.Ref{
			Repository: repository,
			Version:    s.Karpenter.Version,
			Digests:    charts.Digests{CRD: s.Karpenter.Digests.CRD, Controller: s.Karpenter.Digests.Controller},
			InForce:    inForce(s.Sync.Status.Karpenter, repository, s.Karpenter.Version),
		},
		by: s.Attempt,
	}
	if inside {
		try.revision = s.Snapshot.Revision // another revision may have the files
	}
	failed := &s.Memory.unpulled
	if failed.pull == try && !finding.Due(s.Now, failed.at, s.Retry) {
		s.WakeBy(failed.at.Add(s.Retry))
		return nil, failed.err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	access := charts.Access{Keys: s.openHost, Files: s.Files}
	resolved, err := s.Store.Resolve(ctx, try.ref, access)
	if err == nil {
		err = s.verifyCharts(ctx, try.ref, resolved, access)
	}
	*failed = unpulled{}
	if err != nil {
		*failed = unpulled{pull: try, at: s.Now, err: err}
	}
	return resolved, err
}

// inForce returns the digests that a version of a repository has in the cluster, or in a change of the charts that has
// started. They are empty for another version or repository: there a commit decides.
func inForce(k *v1alpha1.KarpenterStatus, repository, version string) charts.Digests {
	if k == nil {
		return charts.Digests{}
	}
	of := func(c *v1alpha1.ResolvedCharts) charts.Digests {
		return charts.Digests{CRD: c.CRDDigest, Controller: c.Digest}
	}
	if t := k.Target; t != nil && t.Charts != nil && t.Version == version && t.Charts.Repository == repository {
		return of(t.Charts)
	}
	if k.Charts != nil {
		if k.Version == version && k.Charts.Repository == repository {
			return of(k.Charts)
		}
		return charts.Digests{}
	}
	// A status written before charts were recorded: the repository is unknown.
	var found charts.Digests
	if k.CRDs != nil && k.CRDs.Version == version {
		found.CRD = k.CRDs.Digest
	}
	if k.Controller != nil && k.Controller.Version == version {
		found.Controller = k.Controller.Digest
	}
	return found
}

// pull is the inputs of an attempt to get the charts.
type pull struct {
	ref charts.Ref
	// by is the NodeSync's generation, and the handled request for a reconcile.
	by string
	// revision that contains the charts; empty if they come from elsewhere.
	revision string
}

// unpulled is a pull that failed, and when.
type unpulled struct {
	pull
	at  time.Time
	err error
}

// withoutCharts continues if the charts are unavailable and a release is in force: its CRDs in the cluster are the
// schema, and the releases stay as they are. That release is the version in Git, with its CRDs or newer ones, or the
// one that the change was to replace. Without such a release, it returns the error. Of charts that another tool
// manages, only the CRDs are read.
func (s *DesiredStep) withoutCharts(ctx context.Context, err error) error {
	if s.Karpenter.Management == render.External {
		s.Unpulled = err
		return s.resolveLive(ctx)
	}
	k := s.Sync.Status.Karpenter
	if k == nil {
		return err
	}
	state, unread := s.Releases.State(ctx, s.Karpenter.Namespace)
	if unread != nil {
		return errors.Join(err, unread)
	}
	if releasedAs(state, s.Karpenter.Version) {
		s.Unpulled = err
		return s.resolveLive(ctx)
	}
	if version := upgrade.InForce(*k); version == "" || !releasedAs(state, version) {
		return err
	}
	s.Unpulled = err
	return s.UseSchemaInForce(ctx)
}

// releasedAs reports whether a version's release is deployed, with its own CRDs or newer ones.
func releasedAs(state release.State, version string) bool {
	crds := state.CRDs.Installed(version) || state.CRDs.Ahead(version)
	return crds && state.Controller.Installed(version)
}

// resolveLive uses the schema of the live CRDs. The cache lists them without their schemas, so they are read from the
// API server once.
func (s *DesiredStep) resolveLive(ctx context.Context) error {
	cached, err := s.readCRDs(ctx, s.View.CachedCRDs)
	if err != nil {
		return err
	}
	s.SchemaIdentity = cluster.Generations(cached)
	s.Schema, err = s.Schemas.Get(s.SchemaIdentity, func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
		crds, err := s.readCRDs(ctx, s.View.CRDs)
		if err == nil && cluster.Generations(crds) != s.SchemaIdentity {
			err = fault.ReadAgain(errors.New("the CRDs changed during the read: reading them again"))
		}
		return crds, err
	})
	return err
}

// readCRDs reads the CRDs of the kinds that plumbline manages. A missing CRD is not an error: the tool that manages the
// charts may not have installed it yet.
func (s *DesiredStep) readCRDs(
	ctx context.Context, read func(context.Context, []string) ([]*apiextensionsv1.CustomResourceDefinition, error),
) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var names []string
	for _, kind := range render.Kinds() {
		names = append(names, kind.CRD)
	}
	crds, err := read(ctx, names)
	if err != nil {
		return nil, err
	}
	if absent := cluster.AbsentCRDs(crds); len(absent) > 0 {
		return nil, fault.Waits(s.missingCRD(absent[0]))
	}
	return crds, nil
}

// missingCRD says who installs a CRD that does not exist.
func (s *DesiredStep) missingCRD(crd string) error {
	switch {
	case s.Karpenter.Management != render.Managed:
	case s.Unpulled != nil:
		return fmt.Errorf("waiting for the schema: crd %s was deleted, and its chart reinstalls it: %w", crd, s.Unpulled)
	default:
		return fmt.Errorf("waiting for the schema: crd %s was deleted, and plumbline reinstalls it with the next change of the charts", crd)
	}
	return fmt.Errorf("waiting for the schema: crd %s is not installed yet; %s", crd, upgrade.Theirs)
}

// servedSchema is the schema of the version in force, for CRDs that are newer.
type servedSchema struct {
	version string
	at      time.Time
	schema  *schema.Validator
}

// UseSchemaInForce uses the schema of the live CRDs, and also that of the version in force if the CRDs are newer: what
// its controller cannot read is not written.
func (s *DesiredStep) UseSchemaInForce(ctx context.Context) error {
	k := s.Sync.Status.Karpenter
	s.Serving, s.Older = upgrade.InForce(*k), nil
	if err := s.resolveLive(ctx); err != nil {
		return s.withheld(err)
	}
	if k.CRDs == nil || !charts.Ahead(k.CRDs.Version, s.Serving) {
		return nil
	}
	s.Older = s.schemaInForce(ctx)
	return nil
}

// schemaInForce returns the schema of the version in force, from its charts. If they are unavailable it returns nil, as
// if the registry were down: the live CRDs decide. It is retried after a while.
func (s *DesiredStep) schemaInForce(ctx context.Context) *schema.Validator {
	last := &s.Memory.served
	if last.version == s.Serving && (last.schema != nil || !finding.Due(s.Now, last.at, s.Retry)) {
		return last.schema
	}
	found, err := s.pullSchema(ctx, s.Serving)
	*last = servedSchema{version: s.Serving, at: s.Now, schema: found}
	if err != nil {
		s.Warn(v1alpha1.ReasonWarning, fmt.Sprintf("definitions are validated against the CRDs in the cluster, not against those of Karpenter %s, which is in force: %v", s.Serving, err))
	}
	return found
}

// pullSchema builds the schema of a version from its charts.
func (s *DesiredStep) pullSchema(ctx context.Context, version string) (*schema.Validator, error) {
	repository, _, err := s.Karpenter.ChartRepository(s.Sync.Spec.Path)
	if err != nil {
		return nil, err
	}
	allow, request := AllowanceOf(s.Sync), allowance.Request{Repository: s.Karpenter.Repository}
	if err := allowance.Refuse(allow.Check(request)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	ref := charts.Ref{Repository: repository, Version: version, InForce: inForce(s.Sync.Status.Karpenter, repository, version)}
	access := charts.Access{Keys: s.openHost, Files: s.Files}
	resolved, err := s.Store.Resolve(ctx, ref, access)
	if err == nil {
		err = allowance.Refuse(allow.CheckDigests(request, resolved.CRDDigest, resolved.Digest))
	}
	if err == nil {
		err = s.verifyCharts(ctx, ref, resolved, access)
	}
	if err == nil {
		err = s.checkCRDs(ctx, resolved)
	}
	if err != nil {
		return nil, err
	}
	return s.Schemas.Get(resolved.CRDDigest, func() ([]*apiextensionsv1.CustomResourceDefinition, error) { return resolved.CRDs(ctx) })
}

// withheld explains what definitions that are invalid under the version in force wait for: the change of the charts
// that is not made.
func (s *DesiredStep) withheld(err error) error {
	why := s.NotUpgraded
	if why == nil && s.Serving != "" {
		why = s.Unpulled
	}
	if why == nil || err == nil {
		return err
	}
	switch fault.Classify(err).Class {
	case fault.Terminal, fault.Waiting:
		return fmt.Errorf("%w; Karpenter %s stays in force, and definitions wait: %s", why, s.Serving, err.Error())
	case fault.Transient, fault.Superseded:
	}
	return err
}

// openHost returns the NodeSync's credentials for a host of charts. It is called when a host is accessed, so that a
// reconcile without a pull reads no Secret, and each pull reads them again.
func (s *DesiredStep) openHost(ctx context.Context, host string) (charts.Credentials, error) {
	registry := s.registry(host)
	if registry == nil {
		return charts.Credentials{}, nil
	}
	var found charts.Credentials
	if ref := registry.SecretRef; ref != nil {
		secret, err := s.registrySecret(ctx, host, ref.Name)
		if err != nil {
			return charts.Credentials{}, err
		}
		if err := s.Grants.Check(secret, grant.Use{NodeSync: s.Sync.Name, Address: host}); err != nil {
			return charts.Credentials{}, err
		}
		if found, err = charts.CredentialsFromSecret(ctx, secret.Data, host); err != nil {
			return charts.Credentials{}, fmt.Errorf("read secret %s, which spec.charts.registries names for %s: %w", ref.Name, host, err)
		}
		found.Origin = "secret " + ref.Name
		s.HideCredential(found.Password)
	}
	if ref := registry.CertSecretRef; ref != nil {
		secret, err := s.registrySecret(ctx, host, ref.Name)
		if err != nil {
			return charts.Credentials{}, err
		}
		if found.CA, err = charts.AuthoritiesFromSecret(secret.Data); err != nil {
			return charts.Credentials{}, fmt.Errorf("read secret %s, which spec.charts.registries names for %s: %w", ref.Name, host, err)
		}
	}
	return found, nil
}

// registry returns the NodeSync's entry for a host; nil if there is none.
func (s *DesiredStep) registry(host string) *v1alpha1.Registry {
	if s.Sync.Spec.Charts == nil {
		return nil
	}
	for i, registry := range s.Sync.Spec.Charts.Registries {
		if registry.Host == strings.ToLower(host) {
			return &s.Sync.Spec.Charts.Registries[i]
		}
	}
	return nil
}

func (s *DesiredStep) registrySecret(ctx context.Context, host, name string) (*corev1.Secret, error) {
	secret, err := s.Secret(ctx, name)
	if err != nil {
		err = fmt.Errorf("read secret %s, which spec.charts.registries names for %s: %w", name, host, err)
		return nil, fault.ChartFailed(err)
	}
	return secret, nil
}

// signedCharts are charts whose signatures were verified, and the Secret with the keys that verified them.
type signedCharts struct {
	ref             charts.Ref
	crd, controller string
	secret          string
}

// verifyCharts checks that the charts have the signatures that the NodeSync requires. Verified charts are not verified
// again in this process, so that a reconcile reads no Secret.
func (s *DesiredStep) verifyCharts(ctx context.Context, ref charts.Ref, resolved *charts.Charts, access charts.Access) error {
	if s.Sync.Spec.Charts == nil || s.Sync.Spec.Charts.Verify == nil {
		return nil
	}
	name := s.Sync.Spec.Charts.Verify.SecretRef.Name
	ref.InForce = charts.Digests{}
	these := signedCharts{ref: ref, crd: resolved.CRDDigest, controller: resolved.Digest, secret: name}
	if s.Memory.signed == these {
		return nil
	}
	by, err := s.chartSigners(ctx, name)
	if err != nil {
		return err
	}
	if err := s.Store.Verify(ctx, ref, resolved, access, by); err != nil {
		return err
	}
	s.Memory.signed = these
	return nil
}

func (s *DesiredStep) chartSigners(ctx context.Context, name string) (charts.Signers, error) {
	fail := func(err error) (charts.Signers, error) {
		err = fmt.Errorf("read secret %s, which spec.charts.verify names: %w", name, err)
		return charts.Signers{}, fault.Unverifiable(err)
	}
	secret, err := s.Secret(ctx, name)
	if err != nil {
		return fail(err)
	}
	if err := grant.CheckNodeSync(secret, s.Sync.Name); err != nil {
		return charts.Signers{}, err
	}
	by, err := charts.SignersFromSecret(name, secret.Data)
	if err != nil {
		return fail(err)
	}
	return by, nil
}

// AllowanceOf returns what a NodeSync lets Git set of the charts.
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

// CheckRequest refuses what plumbline.yaml requests of the charts and the NodeSync does not allow. No repository has
// been contacted by then. It returns the values that no known chart has: whether this chart has them is checked later.
// bundle is the cluster's certificate authorities, PEM in base64; empty if unknown.
func CheckRequest(
	sync *v1alpha1.NodeSync, wanted *render.Karpenter, values charts.Values, bundle string,
) (unknown []allowance.Refusal, err error) {
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

// requestOf returns what plumbline.yaml requests.
func requestOf(wanted *render.Karpenter) allowance.Request {
	return allowance.Request{
		Repository: wanted.Repository, Version: wanted.Version, ControllerRole: wanted.Cluster.ControllerRole,
		Secrets: slices.ContainsFunc(wanted.ValuesFrom, func(from render.ValuesFrom) bool { return from.Kind == render.FromSecret }),
	}
}

// checkFound refuses charts whose digests are not allowed, and values that only this chart has and that are not
// allowed. Values that it does not have either are misspelt: the gates suggest what was meant.
func (s *DesiredStep) checkFound(found *charts.Charts, unknown []allowance.Refusal) error {
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

// checkCRDs refuses CRDs of a chart in Git before their schemas are compiled. A chart whose digest the NodeSync lists
// is not rendered for that.
func (s *DesiredStep) checkCRDs(ctx context.Context, found *charts.Charts) error {
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

// servedByEKS are the CRDs that EKS keeps, by their generations, and why a chart does not fit them.
type servedByEKS struct {
	digest, generations string
	crds                []*apiextensionsv1.CustomResourceDefinition
	unfit               error
}

// checkServed holds charts that do not fit the CRDs that EKS keeps for Auto Mode, which stay as they are. Both are compared
// again once one of them has changed.
func (s *DesiredStep) checkServed(ctx context.Context, found *charts.Charts) error {
	last := &s.Memory.servedByEKS
	s.ServedByEKS = nil
	if s.Karpenter.Management == render.External {
		*last = servedByEKS{}
		return nil
	}
	var names []string
	for _, kind := range cluster.Kinds() {
		names = append(names, kind.CRD)
	}
	cached, err := s.View.CachedCRDs(ctx, names)
	if err == nil {
		cached, err = s.View.ServedByEKS(ctx, cached)
	}
	if err != nil {
		return err
	}
	if len(cached) == 0 {
		*last = servedByEKS{}
		return nil
	}
	for _, crd := range cached {
		s.ServedByEKS = append(s.ServedByEKS, crd.Name)
	}
	slices.Sort(s.ServedByEKS)
	generations := cluster.Generations(cached)
	if last.digest == found.CRDDigest && last.generations == generations {
		return last.unfit
	}
	served, err := s.View.CRDs(ctx, s.ServedByEKS)
	if err != nil {
		return err
	}
	chart, err := found.CRDs(ctx)
	if err != nil {
		return err
	}
	unfit := karpenter.CheckServed(found.Version, chart, served)
	*last = servedByEKS{digest: found.CRDDigest, generations: generations, crds: served, unfit: unfit}
	return last.unfit
}

// Permit checks what the charts render to. That may be an earlier revision, whose version or digest is no longer
// allowed. CRDs stay when the controller is rolled back, and run nothing: those of any version are repaired. A variable
// that is set twice prevents no rollback: an earlier plumbline has installed such a release, and Karpenter ran with it.
func (s *DesiredStep) Permit(r release.Rendered) error {
	allow, ofCRDs := AllowanceOf(s.Sync), r.Chart == charts.CRDChart
	var refusals []allowance.Refusal
	if !ofCRDs {
		refusals = allow.CheckInstalled(r.Version, r.Digest)
	}
	rendered := allowance.Rendered{Namespace: r.Namespace, Version: r.Version, Digest: r.Digest, CRDs: ofCRDs, Objects: r.Objects, LeftToEKS: r.LeftToEKS}
	if k := s.Karpenter; k != nil {
		rendered.InGit = allowance.InGit(k.Repository)
		rendered.Cluster = contradiction.Cluster{Name: k.Cluster.Name, Region: k.Cluster.Region, InterruptionQueue: k.Cluster.InterruptionQueue}
	}
	refusals = append(refusals, allow.CheckObjects(rendered)...)
	if !r.Earlier {
		refusals = append(refusals, allowance.CheckTwice(r.Objects)...)
	}
	return allowance.Refuse(refusals)
}

// warnOfAllowAll warns, once for each generation of the NodeSync, that its repository can obtain every permission
// that plumbline has.
func (s *DesiredStep) warnOfAllowAll() {
	if s.Karpenter.Management != render.Managed || !AllowanceOf(s.Sync).Everything() || s.Observed == s.Sync.Generation {
		return
	}
	s.Warn(v1alpha1.ReasonAllowsEverything, fmt.Sprintf(
		"spec.charts.allow.values of NodeSync %s/%s has %q, so everyone who can push commits can choose the image, the identity, the volumes and the Secrets of Karpenter's controller: list only the values that you need",
		s.Sync.Namespace, s.Sync.Name, allowance.Everything))
}
