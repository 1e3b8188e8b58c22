package release

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/chart"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// InstallerOptions configure an Installer.
type InstallerOptions struct {
	// Config connects to the cluster. It is copied.
	Config *rest.Config
	// StillLeader is called before the first write; its error stops the step. Default: no check.
	StillLeader func(context.Context) error
	// Now is the clock. Default: time.Now.
	Now    func() time.Time
	Logger logr.Logger
	// Confine renders charts in child processes. Default: in this process.
	Confine *confine.Runner
	// Allow is the annotation without which an admission policy denies the deletions of Uninstall: Uninstall first sets
	// it to "true". Default: none is set.
	Allow string
}

// requestTimeout limits one request to the API server, so that a step stops if the server becomes unreachable.
const requestTimeout = 30 * time.Second

// Installer installs charts in one cluster.
type Installer struct {
	options InstallerOptions
	config  *rest.Config
	// objects reads only metadata.
	objects metadata.Interface
	// secrets lists the Secrets of a namespace.
	secrets func(namespace string) secretLister
}

// NewInstaller returns an Installer. It sends no request to the cluster.
func NewInstaller(options InstallerOptions) (*Installer, error) {
	config := rest.CopyConfig(options.Config)
	config.Timeout = requestTimeout
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for Helm's releases: %w", err)
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.StillLeader == nil {
		options.StillLeader = func(context.Context) error { return nil }
	}
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	return &Installer{
		options: options,
		config:  config,
		objects: client,
		secrets: func(namespace string) secretLister { return client.Resource(secrets).Namespace(namespace) },
	}, nil
}

// Result describes what a step did.
type Result struct {
	Step Step
	// Changed reports whether something was written.
	Changed bool
	// Revision of the release, after the step.
	Revision int
	// Version of its chart: the installed one if the CRDs are newer than wanted.
	Version string
	// Drifted are the objects that were deleted or changed, for which a release was repaired.
	Drifted []survey.Drift
	// Paused are objects that were corrected several times within an hour and have changed again: they are not
	// corrected.
	Paused []survey.Drift
}

// State returns what Helm has recorded about the two releases.
func (i *Installer) State(ctx context.Context, namespace string) (State, error) {
	return readState(ctx, i.secrets(namespace))
}

// EnsureCRDs installs or upgrades the CRD chart, and corrects its deleted or changed objects, except CRDs that EKS keeps
// up to date (owners.ServedByEKS), which it leaves as they are. The caller checks whether the CRDs are Established.
// Errors: *BusyError, *TerminatingError, *RejectedError, *ForbiddenError, *DroppedCRDsError, *UnprotectedCRDsError, those
// of survey.CheckWrite, *survey.ForeignReleaseError, *charts.MalformedError, or one of the API server's.
func (i *Installer) EnsureCRDs(ctx context.Context, c *charts.Charts, request Request) (Result, error) {
	t, err := i.newTask(ctx, charts.CRDChart, c, request)
	if err != nil {
		return Result{}, err
	}
	return i.ensure(ctx, t)
}

// EnsureController installs or upgrades the main chart without its crds/. The caller checks whether its rollout is
// complete. Errors: those of EnsureCRDs, *contradiction.Error, *charts.ValuesError and *charts.RenderError.
func (i *Installer) EnsureController(ctx context.Context, c *charts.Charts, request Request) (Result, error) {
	t, err := i.newTask(ctx, charts.ControllerChart, c, request)
	if err != nil {
		return Result{}, err
	}
	return i.ensure(ctx, t)
}

func (i *Installer) ensure(ctx context.Context, t task) (Result, error) {
	want, err := t.mark()
	if err != nil {
		return Result{}, err
	}
	state, err := i.State(ctx, t.namespace)
	if err != nil {
		return Result{}, err
	}
	r, step, err := i.decide(t, state, want)
	if err != nil {
		return Result{}, err
	}
	version := t.Version
	var drifted, paused []survey.Drift
	if step == Keep {
		if r.Foreign {
			return r.result(step), nil // not adopted yet, so nothing is corrected
		}
		if drifted, paused, err = i.drifted(t); err != nil || len(drifted) == 0 {
			result := r.result(step)
			result.Paused = paused
			return result, err
		}
		step, version = Repair, r.version()
		t.description, t.paused = describeRepair(drifted), paused
	}
	if err := i.options.StillLeader(ctx); err != nil {
		return Result{}, fmt.Errorf("%s Helm release %s: %w", step, t.Name, err)
	}
	i.options.Logger.Info("changing a Helm release", "release", t.Name, "step", step, "version", version, "revision", r.Readable+1, "drifted",
		survey.Drifts(drifted))
	if err := i.carryOut(ctx, t, step, r, want); err != nil {
		return r.result(step), fmt.Errorf("%s Helm release %s at version %s: %w", step, t.Name, version, err)
	}
	return Result{Step: step, Changed: true, Revision: r.Readable + 1, Version: version, Drifted: drifted, Paused: paused}, nil
}

// decide returns the next step of a release. For a revision that another Helm client made, only the release itself
// contains the version.
func (i *Installer) decide(t task, state State, want Mark) (Release, Step, error) {
	r := state.of(t.Name)
	if r.Edited && (t.adopt || !r.Foreign) {
		found, err := i.readRelease(survey.Release{Name: t.Name, Namespace: t.namespace})
		if err != nil {
			return r, "", err
		}
		r.Mark.Version = charts.Label(found.Version)
	}
	step, err := nextStep(r, want, t.adopt, i.options.Now())
	if err != nil || step == Install {
		return r, step, err
	}
	if r.Readable, err = i.lastReadable(t); r.Readable < r.Revision {
		step = Recover
	}
	return r, step, err
}

// carryOut runs a step. Once started it is not interrupted: it never waits, and half a release is worse than a late
// one.
func (i *Installer) carryOut(ctx context.Context, t task, step Step, before Release, mark Mark) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	helm, err := newHelm(i.config, t.namespace, i.options.Logger)
	if err != nil {
		return err
	}
	if step == Repair {
		if t, mark, err = helm.earlier(t, before.Revision); err != nil {
			return err
		}
	}
	loaded, err := t.Load()
	if err != nil {
		return err
	}
	documents, _, err := i.render(ctx, helm, t, loaded, before)
	if err != nil {
		return err
	}
	t.manifest = documents.Manifest()
	ctx = context.WithoutCancel(ctx)
	labels := mark.labels(before.Readable + 1)
	switch step {
	case Install:
		return helm.install(ctx, t, loaded, labels)
	case Recover:
		if err := i.discard(ctx, t, before); err != nil {
			return err
		}
		if before.Readable == 0 {
			return helm.install(ctx, t, loaded, labels)
		}
		if err := helm.markFailed(t.Name); err != nil {
			return err
		}
		return helm.upgrade(ctx, t, loaded, labels)
	case Upgrade, Adopt, Repair:
		return helm.upgrade(ctx, t, loaded, labels)
	case Keep:
	}
	return nil
}

// render renders the next revision of a release, as documents and as objects.
func (i *Installer) render(
	ctx context.Context, helm *helm, t task, loaded *chart.Chart, before Release,
) (charts.Documents, []*unstructured.Unstructured, error) {
	cluster, err := helm.capabilities()
	if err != nil {
		return nil, nil, err
	}
	documents, err := charts.Render(ctx, i.options.Confine, loaded, charts.Rendering{
		Release: t.Name, Namespace: t.namespace, Revision: before.Readable + 1, Upgrade: before.Readable > 0,
		Values: t.Values, Cluster: cluster, SkipHooks: t.earlier,
	})
	if err != nil {
		return nil, nil, err
	}
	documents = documents.WithoutCRDs(t.left)
	objects, err := documents.Objects() // checked before Helm parses them
	if err != nil {
		return nil, nil, &charts.MalformedError{Chart: t.Name, Version: t.Version, Err: err}
	}
	return documents, objects, nil
}

// Step is the change that a release needs.
type Step string

// The values of Step.
const (
	// Keep writes nothing: the release is up to date.
	Keep Step = "keep"
	// Install creates the first revision.
	Install Step = "install"
	// Upgrade creates another revision.
	Upgrade Step = "upgrade"
	// Recover marks the unfinished last revision as failed and upgrades over it; if the revision cannot be read, it
	// deletes the revision's Secret first. Uninstalling, the usual fix, would delete every node.
	Recover Step = "recover"
	// Adopt creates another revision of a release that plumbline has not installed.
	Adopt Step = "adopt"
	// Repair creates another revision with the same content, because an object was deleted or changed.
	Repair Step = "repair"
)

// pendingTimeout is how long another Helm client may take to finish a revision.
const pendingTimeout = 10 * time.Minute

// nextStep returns the step that brings a release to the wanted state. adopt allows adopting a release that plumbline
// has not installed. Errors: *survey.ForeignReleaseError, *BusyError.
func nextStep(r Release, want Mark, adopt bool, now time.Time) (Step, error) {
	ahead := r.Name == charts.CRDChart && charts.Ahead(r.version(), charts.FromLabel(want.Version))
	if r.Foreign {
		switch {
		case !adopt:
			return "", &survey.ForeignReleaseError{Release: r.Name, Revision: r.Revision}
		case ahead:
			return Keep, nil
		case r.Status != Pending:
			return Adopt, nil
		}
	}
	switch r.Status {
	case Absent:
		return Install, nil
	case Pending:
		if r.Edited && now.Sub(r.Since) < pendingTimeout {
			return "", &BusyError{Release: r.Name, Revision: r.Revision, Until: r.Since.Add(pendingTimeout)}
		}
		return Recover, nil
	case Failed:
		return Upgrade, nil
	case Deployed:
		if (r.Edited || r.Mark != want) && !ahead {
			return Upgrade, nil
		}
	}
	return Keep, nil
}

// BusyError reports that another Helm client is changing a release.
type BusyError struct {
	Release  string
	Revision int
	// Until is when the revision counts as abandoned.
	Until time.Time
}

// Error names the unfinished revision.
func (e *BusyError) Error() string {
	return fmt.Sprintf("revision %d of Helm release %s was started by another Helm client and is not finished", e.Revision, e.Release)
}

// controllerLabel is the label of the controller in Karpenter's chart.
const controllerLabel = "app.kubernetes.io/name=karpenter"

// Survey lists what exists of Karpenter, in all namespaces, that plumbline has not installed. It reads the releases of
// other namespaces if it has permission.
func (i *Installer) Survey(ctx context.Context, namespace string) (survey.Found, error) {
	state, err := i.State(ctx, namespace)
	if err != nil {
		return survey.Found{}, err
	}
	listed := survey.Listed{Namespace: namespace, Foreign: map[string]int{}}
	for _, release := range []Release{state.CRDs, state.Controller} {
		if release.Foreign {
			listed.Foreign[release.Name] = release.Revision
		}
	}
	if listed.CRDs, err = i.listCRDs(ctx); err != nil {
		return survey.Found{}, err
	}
	if listed.Deployments, err = i.list(ctx, appsv1.SchemeGroupVersion.WithResource("deployments"), controllerLabel); err != nil {
		return survey.Found{}, fmt.Errorf("list the Deployments of Karpenter's controller: %w", err)
	}
	found := survey.Find(listed)
	for n, named := range found.Releases {
		if found.Releases[n], err = i.readRelease(named); err != nil {
			return survey.Found{}, err
		}
	}
	return found, nil
}

// listCRDs returns the metadata of all CRDs of the cluster.
func (i *Installer) listCRDs(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	crds, err := i.list(ctx, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), "")
	if err != nil {
		return nil, fmt.Errorf("list the CRDs: %w", err)
	}
	return crds, nil
}

func (i *Installer) list(
	ctx context.Context, resource schema.GroupVersionResource, selector string,
) ([]metav1.PartialObjectMetadata, error) {
	list, err := i.objects.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// readRelease adds the content of the last revision. The daemon may only read those of its own namespace, and a
// revision may be missing or unreadable: then only the name of the release is known.
func (i *Installer) readRelease(named survey.Release) (survey.Release, error) {
	helm, err := newHelm(i.config, named.Namespace, i.options.Logger)
	if err != nil {
		return survey.Release{}, err
	}
	history, err := helm.readable(named.Name)
	if apierrors.IsForbidden(err) {
		return named, nil
	}
	if err != nil {
		return survey.Release{}, err
	}
	last := newest(history)
	if last == nil {
		return named, nil
	}
	named.Revision, named.Values = last.Version, last.Config
	if last.Chart != nil && last.Chart.Metadata != nil {
		named.Chart, named.Version = last.Chart.Metadata.Name, last.Chart.Metadata.Version
	}
	return named, nil
}
