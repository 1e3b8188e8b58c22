package release

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// InstallerOptions are what an Installer works with.
type InstallerOptions struct {
	// Config reaches the cluster. It is copied.
	Config *rest.Config
	// StillLeader is asked before the first write; its error stops the step.
	// Default: nothing is asked.
	StillLeader func(context.Context) error
	// Now is the clock. Default: time.Now.
	Now    func() time.Time
	Logger logr.Logger
	// Confine renders charts in child processes. Default: in this one.
	Confine *confine.Runner
	// Allow is the annotation without which an admission policy refuses what Uninstall deletes:
	// Uninstall sets it first, to "true". Default: none is set.
	Allow string
}

// requestTimeout is for one request to the API server, so that a step whose
// server went away ends.
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

// NewInstaller returns an Installer. It asks the cluster nothing.
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

// Result says what a step did.
type Result struct {
	Step Step
	// Changed says that something was written.
	Changed bool
	// Revision of the release, after the step.
	Revision int
	// Version of its chart: for CRDs that are newer than what is wanted, the installed one.
	Version string
	// Drifted are the objects that were deleted or changed, for which a release was
	// repaired.
	Drifted []survey.Drift
	// Paused are objects that were corrected several times within an hour and have
	// changed once more: they are left as they are.
	Paused []survey.Drift
}

// State reads what Helm knows of the two releases.
func (i *Installer) State(ctx context.Context, namespace string) (State, error) {
	return readState(ctx, i.secrets(namespace))
}

// EnsureCRDs installs or upgrades the CRD chart, and corrects what was deleted or
// changed of it. Whether the CRDs are Established is for the caller to see. Errors:
// *BusyError, *TerminatingError, *RejectedError, *ForbiddenError, *DroppedCRDsError,
// *UnprotectedCRDsError, those of survey.CheckWrite, *survey.ForeignReleaseError,
// *charts.MalformedError, or one of the API server's.
func (i *Installer) EnsureCRDs(ctx context.Context, c *charts.Charts, request Request) (Result, error) {
	t, err := newTask(charts.CRDChart, c, request)
	if err != nil {
		return Result{}, err
	}
	return i.ensure(ctx, t)
}

// EnsureController installs or upgrades the main chart, its crds/ left out. Whether its
// rollout is complete is for the caller to see. Errors: those of EnsureCRDs,
// *contradiction.Error, *charts.ValuesError and *charts.RenderError.
func (i *Installer) EnsureController(ctx context.Context, c *charts.Charts, request Request) (Result, error) {
	t, err := newTask(charts.ControllerChart, c, request)
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
			return r.result(step), nil // not adopted yet, so nothing of it is corrected
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
		return Result{}, fmt.Errorf("%s helm release %s: %w", step, t.Name, err)
	}
	i.options.Logger.Info("changing a helm release", "release", t.Name, "step", step, "version", version, "revision", r.Readable+1, "drifted", survey.Drifts(drifted))
	if err := i.carryOut(ctx, t, step, r, want); err != nil {
		return r.result(step), fmt.Errorf("%s helm release %s at version %s: %w", step, t.Name, version, err)
	}
	return Result{Step: step, Changed: true, Revision: r.Readable + 1, Version: version, Drifted: drifted, Paused: paused}, nil
}

// decide says what a release needs. The version of a revision that another Helm client
// made is only in the release itself.
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

// carryOut does a step. Once begun it is not interrupted: nothing in it waits, and
// half a release is worse than a late one.
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

// render makes the next revision of a release: its documents, and the objects in them.
func (i *Installer) render(ctx context.Context, helm *helm, t task, loaded *chart.Chart, before Release) (charts.Documents, []*unstructured.Unstructured, error) {
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
	objects, err := documents.Objects() // weighed before Helm reads them
	if err != nil {
		return nil, nil, &charts.MalformedError{Chart: t.Name, Version: t.Version, Err: err}
	}
	return documents, objects, nil
}
